//! Calls that end an unwinder's walk: linked code sees the call as the bottom of its stack.
//!
//! An uncaught exception of a program must end in its terminate handler, and a thread that exits or
//! is cancelled must run only its own clean-up. This holds when an unwinder knows no frame below
//! the code's first one, as in a call by the C library. Otherwise unwinding would reach Rust
//! frames, which do not support it.

use std::arch::naked_asm;
use std::sync::OnceLock;

/// A function that calls another one with up to three arguments. It returns the result, or any
/// number if the called function did not return.
pub type Caller = unsafe fn(function: u64, arguments: [u64; 3]) -> u64;

/// The function that calls linked code in place of [`call_unguarded`].
static CALLER: OnceLock<Caller> = OnceLock::new();

/// Sets the function that calls constructors, destructors, exit handlers and resolvers from now on.
/// Only the first call has an effect.
///
/// The caller must make calls that end an unwinder's walk, on any thread.
pub fn set_caller(caller: Caller) {
    let _ = CALLER.set(caller);
}

/// Calls a function with up to three arguments as the first of its stack, and returns its result.
/// Unwinding never passes this function.
///
/// # Safety
/// The address must be that of a function of the C calling convention that is sound to call with
/// these arguments.
pub unsafe fn call_at_bottom(function: u64, arguments: [u64; 3]) -> u64 {
    let caller = CALLER.get().copied().unwrap_or(call_unguarded);
    // SAFETY: guaranteed by the caller.
    unsafe { caller(function, arguments) }
}

/// Calls a function as [`call_at_bottom`] does, without the caller set by [`set_caller`].
///
/// # Safety
/// As for [`call_at_bottom`].
pub unsafe fn call_unguarded(function: u64, arguments: [u64; 3]) -> u64 {
    let [first, second, third] = arguments;
    // SAFETY: guaranteed by the caller.
    unsafe { bottom(first, second, third, function) }
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn bottom(first: u64, second: u64, third: u64, function: u64) -> u64 {
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

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn bottom(first: u64, second: u64, third: u64, function: u64) -> u64 {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "blr x3",
        "ldp x29, x30, [sp], #16",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_results_pass() {
        extern "C" fn digits(first: u64, second: u64, third: u64) -> u64 {
            first * 100 + second * 10 + third
        }
        // SAFETY: the function takes three numbers.
        assert_eq!(unsafe { call_at_bottom(digits as *const () as u64, [1, 2, 3]) }, 123);
    }

    #[test]
    fn the_stack_is_aligned() {
        #[unsafe(naked)]
        extern "C" fn misalignment() -> u64 {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("lea rax, [rsp + 8]", "and rax, 15", "ret");
            #[cfg(target_arch = "aarch64")]
            naked_asm!("mov x0, sp", "and x0, x0, #15", "ret");
        }
        // SAFETY: the function takes nothing.
        assert_eq!(unsafe { call_at_bottom(misalignment as *const () as u64, [0; 3]) }, 0);
    }

    #[test]
    fn unwinders_end_here() {
        extern "C" fn frames() -> u64 {
            let mut frames = 0;
            // SAFETY: the callback counts in a variable that outlives the call.
            unsafe { _Unwind_Backtrace(count, (&raw mut frames).cast()) };
            frames
        }
        unsafe extern "C" fn count(_: *mut c_void, frames: *mut c_void) -> c_int {
            // SAFETY: the pointer is the one passed above.
            unsafe { *frames.cast::<u64>() += 1 };
            0
        }
        use std::ffi::{c_int, c_void};
        unsafe extern "C" {
            fn _Unwind_Backtrace(
                callback: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
                argument: *mut c_void,
            ) -> c_int;
        }
        // SAFETY: the function takes nothing.
        let below = unsafe { call_at_bottom(frames as *const () as u64, [0; 3]) };
        let here = std::hint::black_box(frames)();
        // Frames of the function and of the bottom, and an end.
        assert!(below <= 3 && here > 3, "{below} frames, {here} without a bottom");
    }
}
