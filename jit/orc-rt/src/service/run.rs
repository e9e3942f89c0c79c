//! Running constructors and programs.

use std::ffi::{CStr, CString, c_char};
use std::ptr::null;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::services;
use crate::call_at_bottom;
use crate::reentry::as_lock_owner;

services! {
    /// The service that makes the arguments of `main` and constructors, from these strings and the
    /// environment of this process. The arguments live until the process ends, since code that has
    /// seen them may keep them.
    MAKE_ARGUMENTS = "__longshore_make_arguments", fn(Vec<ByteBuf>) -> Arguments, make;
    /// The service that calls functions with these arguments, one after the other.
    RUN_CONSTRUCTORS = "__longshore_run_constructors", fn((Vec<u64>, Arguments)) -> (), run_constructors;
    /// The service that calls functions for a [lock owner](crate::reentry::lock_owner()). Calls
    /// through trampolines made by the functions have its number.
    RUN_AS_LOCK_OWNER = "__longshore_run_as_lock_owner", fn((u64, Vec<u64>, Arguments)) -> (), run_as_lock_owner;
    /// The service that calls a function as `main`, and returns its result. The function may also
    /// end the process.
    RUN_MAIN = "__longshore_run_main", fn((u64, Arguments)) -> i32, run_main;
    /// The service that calls a function as `main` with strings, as [`MAKE_ARGUMENTS`] takes them.
    RUN_AS_MAIN = "__longshore_run_as_main", fn((u64, Vec<ByteBuf>)) -> i32, run_as_main;
}

/// The arguments of `main`: addresses of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arguments {
    /// Number of arguments.
    pub argc: u64,
    /// The address of the arguments and a null pointer; 0 for a null pointer alone.
    pub argv: u64,
    /// The address of the environment and a null pointer; 0 for a null pointer alone.
    pub environment: u64,
}

impl Arguments {
    /// Returns the first argument, or an empty string.
    ///
    /// # Safety
    /// The arguments must be made by [`MAKE_ARGUMENTS`], or equivalent.
    pub(super) unsafe fn first(self) -> &'static CStr {
        match self.argc {
            0 => c"",
            // SAFETY: guaranteed by the caller: a list of strings that live until the process ends.
            _ => unsafe { CStr::from_ptr(*(self.argv as *const *const c_char)) },
        }
    }

    fn words(self) -> [u64; 3] {
        let list = |address| if address == 0 { &raw const NO_STRINGS.0 as u64 } else { address };
        [self.argc, list(self.argv), list(self.environment)]
    }
}

struct NoStrings(*const c_char);

// SAFETY: the value is a null pointer that is never written.
unsafe impl Sync for NoStrings {}

static NO_STRINGS: NoStrings = NoStrings(null());

unsafe extern "C" {
    /// The C library's environment, as code of the process may change it.
    static environ: *const *const c_char;
}

pub(super) fn make(strings: Vec<ByteBuf>) -> Arguments {
    let argc = strings.len() as u64;
    let up_to_zero = |string: ByteBuf| {
        let end = memchr::memchr(0, &string).unwrap_or(string.len());
        CString::new(&string[..end]).expect("it has no zero in it").into_raw().cast_const()
    };
    let mut argv: Vec<*const c_char> = strings.into_iter().map(up_to_zero).collect();
    argv.push(null());
    // SAFETY: the C library initialises it at the start of the process. Code that changes the
    // environment must not do so during this call.
    let environment = unsafe { environ } as u64;
    Arguments { argc, argv: argv.leak().as_ptr() as u64, environment }
}

/// # Safety
/// The functions must be callable with these arguments.
pub(crate) unsafe fn run_constructors((functions, arguments): (Vec<u64>, Arguments)) {
    for function in functions {
        // SAFETY: guaranteed by the caller.
        unsafe { call_at_bottom(function, arguments.words()) };
    }
}

/// # Safety
/// As for [`run_constructors`].
unsafe fn run_as_lock_owner((lock_owner, functions, arguments): (u64, Vec<u64>, Arguments)) {
    // SAFETY: guaranteed by the caller.
    as_lock_owner(lock_owner, || unsafe { run_constructors((functions, arguments)) });
}

/// # Safety
/// `function` must be callable as `main` with these arguments.
pub(super) unsafe fn run_main((function, arguments): (u64, Arguments)) -> i32 {
    // SAFETY: guaranteed by the caller.
    (unsafe { call_at_bottom(function, arguments.words()) }) as i32
}

/// # Safety
/// `function` must be callable as `main`.
unsafe fn run_as_main((function, strings): (u64, Vec<ByteBuf>)) -> i32 {
    // SAFETY: guaranteed by the caller; the arguments are made here.
    unsafe { run_main((function, make(strings))) }
}
