//! Entry into the driver's functions.

use super::machine::is_initialized;
use super::state::has_ended;
use super::{Code, DriverResult, broken, driver};
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
pub enum RequiredState {
    /// No state; host functions may call the function too.
    Nothing,
    /// An initialised driver.
    Driver,
}

/// A return type of the drivers' functions.
pub trait ReturnType {
    /// Result of the function's body.
    type Done;

    /// Returns the value for a result of the body.
    fn from_result(done: Self::Done) -> Self;

    /// Returns the value for a call that failed before the body ran.
    fn from_code(code: Code) -> Self;

    /// Stores an error as the calling thread's last error.
    fn note(&self) {}
}

impl ReturnType for u32 {
    type Done = DriverResult;

    fn from_result(done: DriverResult) -> u32 {
        done.map_or_else(|code| code.0, |()| 0)
    }

    fn from_code(code: Code) -> u32 {
        code.0
    }

    fn note(&self) {
        if *self != 0 {
            LAST_ERROR.set(*self);
        }
    }
}

impl ReturnType for *const c_char {
    type Done = &'static CStr;

    fn from_result(done: &'static CStr) -> *const c_char {
        done.as_ptr()
    }

    fn from_code(_code: Code) -> *const c_char {
        std::ptr::null()
    }
}

/// Enters a function: counts the call, fails it if a rule says so, checks the common requirements,
/// and runs the body.
pub fn enter<R: ReturnType>(
    name: &'static str,
    needs: RequiredState,
    body: impl FnOnce() -> R::Done,
) -> R {
    if has_ended() {
        return R::from_code(Code::DEINITIALIZED);
    }
    set_call(name);
    let checked =
        || match driver().calls.enter(name).map_or_else(|| check(needs), |code| Err(Code(code))) {
            Ok(()) => R::from_result(body()),
            Err(code) => R::from_code(code),
        };
    let result =
        catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|_| R::from_code(Code::UNKNOWN));
    if needs != RequiredState::Nothing {
        result.note();
    }
    result
}

/// Returns the calling thread's last unreported error, and clears it.
///
/// # Errors
/// That last error.
pub fn take_last_error() -> DriverResult {
    match LAST_ERROR.take() {
        0 => Ok(()),
        code => Err(Code(code)),
    }
}

/// Runs a host function of the program on this thread; calls of the driver from it are violations.
pub(crate) fn in_host_function(function: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    function();
    IN_HOST_FUNCTION.set(false);
}

fn check(needs: RequiredState) -> DriverResult {
    if needs == RequiredState::Nothing {
        return Ok(());
    }
    if IN_HOST_FUNCTION.get() {
        return Err(broken(Code::NOT_PERMITTED, "a host function calls the driver"));
    }
    if is_initialized() { Ok(()) } else { driver().vendor.uninitialized() }
}
