//! The end of the program by device code. OpenMP allows `exit` and similar functions in regions.

use longshore::Error;
use std::ffi::c_int;

unsafe extern "C" {
    fn quick_exit(status: c_int) -> !;
}

/// Ends the program if device code called a function that ends it. The CPU backend ends the kernel
/// instead, so that exit handlers may unload its image; its error has the function and the status.
pub(crate) fn exit_if_called(error: &Error) {
    let Some(call) = error.vendor() else { return };
    let status = call.number as c_int;
    // SAFETY: the kernel was ended, and the callers hold no lock of this library; exit handlers may
    // take all of them.
    unsafe {
        match call.name.as_str() {
            "exit" => libc::exit(status),
            "_exit" | "_Exit" => libc::_exit(status),
            "quick_exit" => quick_exit(status),
            _ => {}
        }
    }
}
