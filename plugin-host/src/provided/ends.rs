//! Functions of the C library that end a thread or the program. Device code that calls one ends as
//! if it had faulted; other code gets the C library's behaviour.

use crate::guard::{Ending, Guard};
use libc::{c_char, c_int, c_long, c_void};
use std::ffi::CStr;

/// Returns the address of the replacement for a C library function.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    let address = match name {
        "pthread_exit" => pthread_exit as *const (),
        "thrd_exit" => thrd_exit as *const (),
        "exit" => exit as *const (),
        "_exit" => _exit as *const (),
        "_Exit" => _Exit as *const (),
        "quick_exit" => quick_exit as *const (),
        "execve" => execve as *const (),
        "execv" => execv as *const (),
        "execvp" => execvp as *const (),
        "execvpe" => execvpe as *const (),
        "fexecve" => fexecve as *const (),
        "execl" => execl as *const (),
        "execlp" => execlp as *const (),
        "execle" => execle as *const (),
        "syscall" => syscall as *const (),
        _ => return None,
    };
    Some(address.expose_provenance() as u64)
}

/// Defines functions with the arguments of the C library's functions, and the argument that is the
/// program's status. A call from device code ends that code; other code gets the C library's
/// function.
macro_rules! ends {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty $(=> $status:ident)?;)*) => {
        $(#[allow(non_snake_case, reason = "names of the C library")]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            Guard::end_if_called(Ending::new(NAME)$(.with_status($status))?);
            // SAFETY: promised by the caller.
            unsafe { c::$name($($argument),*) }
        })*

        mod c {
            use super::*;

            unsafe extern "C" {
                $(pub(super) fn $name($($argument: $type),*) -> $result;)*
            }
        }
    };
}

type Strings = *const *const c_char;

ends! {
    pthread_exit(value: *mut c_void) -> !;
    thrd_exit(result: c_int) -> !;
    exit(status: c_int) -> ! => status;
    _exit(status: c_int) -> ! => status;
    _Exit(status: c_int) -> ! => status;
    quick_exit(status: c_int) -> ! => status;
    execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    execv(path: *const c_char, arguments: Strings) -> c_int;
    execvp(file: *const c_char, arguments: Strings) -> c_int;
    execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fexecve(file: c_int, arguments: Strings, environment: Strings) -> c_int;
}

/// Defines variadic functions, which check the call and jump to the C library's function with all
/// arguments in place.
macro_rules! variadic_ends {
    ($($name:ident $check:ident $text:literal;)*) => {
        $(
            #[cfg(target_arch = "x86_64")]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    "call {check}",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp [rip + {real}@GOTPCREL]",
                    check = sym $check,
                    real = sym libc::$name,
                )
            }

            #[cfg(target_arch = "aarch64")]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-80]!",
                    "stp x0, x1, [sp, #16]",
                    "stp x2, x3, [sp, #32]",
                    "stp x4, x5, [sp, #48]",
                    "stp x6, x7, [sp, #64]",
                    "bl {check}",
                    "ldp x0, x1, [sp, #16]",
                    "ldp x2, x3, [sp, #32]",
                    "ldp x4, x5, [sp, #48]",
                    "ldp x6, x7, [sp, #64]",
                    "ldp x29, x30, [sp], #80",
                    "b {real}",
                    check = sym $check,
                    real = sym libc::$name,
                )
            }
        )*
        $(variadic_ends!(@check $check $text);)*
    };
    (@check check_syscall $text:literal) => {};
    (@check $check:ident $text:literal) => {
        extern "C" fn $check() {
            Guard::end_if_called(Ending::new($text));
        }
    };
}

variadic_ends! {
    execl check_execl c"execl";
    execlp check_execlp c"execlp";
    execle check_execle c"execle";
    syscall check_syscall c"syscall";
}

/// Ends device code that requests a system call which ends its thread or the program.
extern "C" fn check_syscall(number: c_long) {
    let name = match number {
        libc::SYS_exit => c"syscall(SYS_exit)",
        libc::SYS_exit_group => c"syscall(SYS_exit_group)",
        libc::SYS_execve => c"syscall(SYS_execve)",
        libc::SYS_execveat => c"syscall(SYS_execveat)",
        _ => return,
    };
    Guard::end_if_called(Ending::new(name));
}
