//! Arguments of constructors and destructors, and their status variables.

use super::loaded::{LoadedImage, pointer, variable};
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Returns an error if the image's status variable of its constructors is not zero.
pub(super) fn constructor_status(image: &dyn LoadedImage) -> Result<()> {
    status(image, "__longshore_constructor_status", "constructors")
}

/// Returns an error if the image's status variable of its destructors is not zero.
pub(super) fn destructor_status(image: &dyn LoadedImage) -> Result<()> {
    status(image, "__longshore_destructor_status", "destructors")
}

fn status(image: &dyn LoadedImage, name: &str, what: &str) -> Result<()> {
    let is_int = |bytes| bytes == size_of::<c_int>() as u64;
    let Some(symbol) = variable(image.symbol_in_memory(name)).filter(|symbol| is_int(symbol.bytes))
    else {
        return Ok(());
    };
    // SAFETY: `LoadedImage` promises that the variable's bytes are readable.
    let status = unsafe { pointer::<c_int>(symbol.address).read_unaligned() };
    if status == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::BackendFailure,
        format!("the image's {what} failed: {name} is {status}, expected 0"),
    ))
}

/// The program's arguments, as `main` gets them; they live as long as the process.
pub(super) struct MainArguments {
    pub(super) count: c_int,
    pub(super) values: *const *const c_char,
}

// SAFETY: the pointer is to an array that is never changed and never freed.
unsafe impl Send for MainArguments {}
// SAFETY: as above.
unsafe impl Sync for MainArguments {}

impl MainArguments {
    pub(super) fn get() -> &'static MainArguments {
        static ARGUMENTS: OnceLock<MainArguments> = OnceLock::new();
        ARGUMENTS.get_or_init(|| {
            let owned = std::env::args_os().filter_map(|value| CString::new(value.into_vec()).ok());
            let mut values: Vec<_> = owned.map(|value| value.into_raw().cast_const()).collect();
            let count = values.len() as c_int;
            values.push(std::ptr::null());
            MainArguments { count, values: values.leak().as_ptr() }
        })
    }

    /// Returns the current environment.
    pub(super) fn environment(&self) -> *const *const c_char {
        // SAFETY: this is the C library's variable; only its value is read.
        unsafe { environ }
    }
}
