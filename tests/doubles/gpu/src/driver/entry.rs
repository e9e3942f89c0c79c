//! How functions of the driver are entered.

use super::machine::is_initialized;
use super::state::has_ended;
use super::{Answer, Code, broken, driver};
use crate::set_call;
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// State that a function of the driver needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing; host functions may call it too.
    Nothing,
    /// That the driver is initialised.
    Driver,
}

/// Results of functions of drivers.
pub trait Returned {
    /// Result of their work.
    type Done;

    /// The value for what was done.
    fn of(done: Self::Done) -> Self;

    /// The value for what was not done.
    fn of_code(code: Code) -> Self;

    /// Keeps it for the thread, if it is an error.
    fn note(&self) {}
}

impl Returned for u32 {
    type Done = Answer;

    fn of(done: Answer) -> u32 {
        done.map_or_else(|code| code.0, |()| 0)
    }

    fn of_code(code: Code) -> u32 {
        code.0
    }

    fn note(&self) {
        if *self != 0 {
            LAST_ERROR.set(*self);
        }
    }
}

impl Returned for *const c_char {
    type Done = &'static CStr;

    fn of(done: &'static CStr) -> *const c_char {
        done.as_ptr()
    }

    fn of_code(_code: Code) -> *const c_char {
        std::ptr::null()
    }
}

/// Enters a function: counts the call, fails it if it was told to, checks what any function needs, and does it.
pub fn enter<R: Returned>(name: &'static str, needs: Needs, body: impl FnOnce() -> R::Done) -> R {
    if has_ended() {
        return R::of_code(Code::DEINITIALIZED);
    }
    set_call(name);
    let checked =
        || match driver().calls.enter(name).map_or_else(|| check(needs), |code| Err(Code(code))) {
            Ok(()) => R::of(body()),
            Err(code) => R::of_code(code),
        };
    let result =
        catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|_| R::of_code(Code::UNKNOWN));
    if needs != Needs::Nothing {
        result.note();
    }
    result
}

/// The last error of the calling thread that it was not told of.
///
/// # Errors
/// That error.
pub fn take_last_error() -> Answer {
    match LAST_ERROR.take() {
        0 => Ok(()),
        code => Err(Code(code)),
    }
}

/// Runs a function of the program on this thread, from where the driver must not be called.
pub(crate) fn in_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    function();
    IN_HOST_FUNCTION.set(false);
}

fn check(needs: Needs) -> Answer {
    if needs == Needs::Nothing {
        return Ok(());
    }
    if IN_HOST_FUNCTION.get() {
        return Err(broken(Code::NOT_PERMITTED, "a host function calls the driver"));
    }
    if is_initialized() { Ok(()) } else { driver().vendor.uninitialized() }
}
