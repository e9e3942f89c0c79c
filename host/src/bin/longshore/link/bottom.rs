//! The bottom of the program's stack.
//!
//! Unwinding that goes through the program's entry must find nothing behind it, as behind the C library's call of main: then an
//! exception that nobody catches calls the terminate handler, and `pthread_exit` ends the thread. Frames of Rust would stop both.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int};

/// The program's entry, as the C library calls it.
pub(super) type Main =
    unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;

/// Calls the entry with these arguments. Unwinders take this function for the one that started the thread.
///
/// # Safety
/// The entry must be sound to call with the arguments. Frames above this one may be left without being unwound.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn call(
    argc: c_int,
    argv: *const *const c_char,
    environment: *const *const c_char,
    main: Main,
) -> c_int {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "push rbp",
        "mov rbp, rsp",
        "call rcx",
        "pop rbp",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls the entry with these arguments. Unwinders take this function for the one that started the thread.
///
/// # Safety
/// The entry must be sound to call with the arguments. Frames above this one may be left without being unwound.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn call(
    argc: c_int,
    argv: *const *const c_char,
    environment: *const *const c_char,
    main: Main,
) -> c_int {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "stp x29, x30, [sp, -16]!",
        "mov x29, sp",
        "blr x3",
        "ldp x29, x30, [sp], 16",
        "ret",
        ".cfi_endproc",
    )
}
