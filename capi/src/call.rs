//! The steps around the work of every function: the test for olInit, the refusals, the trace, and
//! the result.

use crate::context;
use crate::result_handle;
use crate::types::structures::{ol_code_location_t, ol_result_t};
use crate::types::trace::TraceValue;
use longshore::{Error, ErrorCode, Result};
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Runs a function: `check` refuses arguments, `body` works, `show` writes the arguments for a
/// trace.
#[inline]
pub(crate) fn run(
    name: &'static str,
    needs_init: bool,
    check: impl Fn() -> Result<()>,
    body: impl Fn() -> Result<()>,
    show: impl Fn(&mut String, bool),
) -> ol_result_t {
    let state = context::state();
    let work = || {
        if needs_init && !state.is_initialized() {
            return Err(uninitialized());
        }
        if !state.skips_checks() {
            check()?;
        }
        body()
    };
    let done = catch_unwind(AssertUnwindSafe(work));
    let result = match done {
        Ok(Ok(())) => ptr::null(),
        Ok(Err(error)) => failed(name, &error),
        Err(panic) => failed(name, &panic_error(&*panic)),
    };
    // olInit sets the flag of the trace, so the flag is read after the call.
    if context::state().is_traced() {
        traced(name, result, &show);
    }
    result
}

/// Runs a function with the location of its call.
///
/// # Safety
/// The pointer is null or points to a location that lives until `function` returns.
pub(crate) unsafe fn at(
    location: *const ol_code_location_t,
    function: impl FnOnce() -> ol_result_t,
) -> ol_result_t {
    // At the end of a thread, the thread-local location no longer exists.
    let _ = PLACE.try_with(|place| place.set(location));
    let result = function();
    let _ = PLACE.try_with(|place| place.set(ptr::null()));
    result
}

/// Creates the error for arguments that meet the condition `wrong`.
#[cold]
pub(crate) fn refused(code: ErrorCode, wrong: &'static str) -> Error {
    let null = wrong.strip_suffix(".is_null()").or_else(|| wrong.strip_suffix(".is_none()"));
    let wrong = match null.filter(|name| !name.contains(char::is_whitespace)) {
        Some(name) => format!("NULL == {name}"),
        // The compiler breaks long conditions into lines.
        None => {
            let words: Vec<_> = wrong.split_whitespace().collect();
            words.join(" ").replace(".is_null()", " == NULL")
        }
    };
    Error::new(code, format!("validation failure: {wrong}"))
}

thread_local! {
    /// Location of the call of the function that this thread is in.
    static PLACE: Cell<*const ol_code_location_t> = const { Cell::new(ptr::null()) };
}

#[cold]
fn uninitialized() -> Error {
    Error::new(ErrorCode::Uninitialized, "before olInit, or after the last olShutDown")
}

#[cold]
fn failed(name: &str, error: &Error) -> ol_result_t {
    let place = PLACE.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: the caller of `at` keeps the location until the function returns.
    let place = unsafe { place.as_ref() }.map(shown).unwrap_or_default();
    result_handle::for_error(error.code(), &format!("{name}{place}: {error}"))
}

fn panic_error(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    Error::new(ErrorCode::Unknown, format!("it panicked: {text}"))
}

/// Returns the text of a location: " in main (main.c:12:3)".
fn shown(place: &ol_code_location_t) -> String {
    let text = |text: *const c_char| match text.is_null() {
        true => "?".into(),
        // SAFETY: the texts of a location end with a NUL.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy(),
    };
    let (function, file) = (text(place.FunctionName), text(place.SourceFile));
    format!(" in {function} ({file}:{}:{})", place.LineNumber, place.ColumnNumber)
}

#[cold]
fn traced(name: &str, result: ol_result_t, show: &dyn Fn(&mut String, bool)) {
    let mut line = format!("---> {name}(");
    show(&mut line, result.is_null());
    line.push_str(")-> ");
    show_result(result, &mut line);
    // One write, as several threads may trace. A failure to write is ignored.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// Writes "OL_SUCCESS", or the name of the error and its text.
fn show_result(result: ol_result_t, line: &mut String) {
    // SAFETY: results are null or live as long as the process.
    match unsafe { result.as_ref() } {
        None => line.push_str("OL_SUCCESS\n"),
        Some(error) => {
            error.Code.show(line);
            // SAFETY: details are never null.
            let details = unsafe { CStr::from_ptr(error.Details) }.to_string_lossy();
            let _ = write!(line, "\n     *Error Details* {details} \n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_one_line() {
        let text = |wrong| refused(ErrorCode::InvalidArgument, wrong).to_string();
        assert!(text("Queue.is_null()").contains("validation failure: NULL == Queue"));
        assert!(text("(Flags &\n!3) != 0").contains("validation failure: (Flags & !3) != 0"));
    }
}
