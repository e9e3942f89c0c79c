//! Runtime functions of kernels, except waits.

use crate::guard::{Failure, Guard};
use crate::kernel::abi::{Calls, Work};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Functions for kernels whose items are a loop, and so cannot wait for each other.
pub(crate) static CALLS: Calls =
    Calls { barrier, grid_barrier, gather, write, fail, barrier_of_rest: barrier, gather_of };
/// Functions for a group of such a kernel that runs a second time, and prints nothing.
pub(super) static CALLS_OF_TRACE: Calls = Calls { write: leave_out, ..CALLS };

unsafe extern "C" fn barrier(_work: *mut Work) {
    refuse(c"a barrier in a loop over the items: the image lost its notes, or the barrier is in LONGSHORE_ITEMS")
}

unsafe extern "C" fn grid_barrier(_work: *mut Work) {
    refuse(c"a barrier of the whole grid in a launch that is not cooperative")
}

unsafe extern "C" fn gather(_work: *mut Work, _value: u64, _present: *mut u64) -> *const u64 {
    refuse(c"a sub-group operation in a loop over the items: the image lost its notes")
}

unsafe extern "C" fn gather_of(
    work: *mut Work,
    value: u64,
    _lanes: u32,
    present: *mut u64,
) -> *const u64 {
    // SAFETY: as the kernel vouches.
    unsafe { gather(work, value, present) }
}

/// Prints a kernel's text to the C library's standard output.
pub(super) unsafe extern "C" fn write(_work: *mut Work, text: *const c_char, bytes: u64) {
    let guard = Guard::for_thread();
    let suspended = guard.suspend();
    // SAFETY: the kernel vouches for the text; the stream is the C library's.
    unsafe { libc::fwrite(text.cast::<c_void>(), 1, bytes as usize, stdout) };
    HAS_WRITTEN.store(true, Ordering::Relaxed);
    guard.resume(suspended);
}

/// Drops a kernel's text.
pub(super) unsafe extern "C" fn leave_out(_work: *mut Work, _text: *const c_char, _bytes: u64) {}

/// Whether a kernel printed text that is not flushed yet.
static HAS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Flushes the output of kernels at the end of a launch, as GPUs do.
#[inline]
pub(super) fn flush() {
    if HAS_WRITTEN.load(Ordering::Relaxed) && HAS_WRITTEN.swap(false, Ordering::Relaxed) {
        // SAFETY: the stream is the C library's.
        unsafe { libc::fflush(stdout) };
    }
}

/// Ends the launch with the failure that device code describes.
pub(super) unsafe extern "C" fn fail(
    _work: *mut Work,
    what: *const c_char,
    file: *const c_char,
    line: u32,
    from: u64,
) {
    // SAFETY: a kernel calls this, inside `Guard::call`.
    unsafe { Guard::for_thread().fail(Failure { what, file, line, from }) }
}

fn refuse(what: &'static std::ffi::CStr) -> ! {
    let failure = Failure { what: what.as_ptr(), file: std::ptr::null(), line: 0, from: 0 };
    // SAFETY: a kernel calls this, inside `Guard::call`.
    unsafe { Guard::for_thread().fail(failure) }
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}
