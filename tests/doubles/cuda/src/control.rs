//! What tests have of the double: exported functions beside those of the driver. `longshore_double_gpu::Double` calls
//! them.

use crate::current;
use crate::driver::driver;
use crate::object::Object;
use longshore_double_gpu::Object as _;
use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

/// Has the `nth` call of a function from now on fail.
///
/// # Safety
/// The name ends with NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn longshore_double_fail(name: *const c_char, nth: u64, code: u32) {
    // SAFETY: promised by the caller.
    driver().calls.fail(&unsafe { text(name) }, nth, code);
}

/// Has each call of a function take longer.
///
/// # Safety
/// The name ends with NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn longshore_double_delay(name: *const c_char, microseconds: u64) {
    // SAFETY: promised by the caller.
    let name = unsafe { text(name) };
    driver().calls.set_delay(&name, Duration::from_micros(microseconds));
}

/// Forgets what fails and is slow.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_clear() {
    driver().calls.clear();
}

/// The functions that were called, each with a count.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_calls() -> *mut c_char {
    let counts = driver().calls.counts();
    lines(counts.iter().map(|(name, count)| format!("{name} {count}")).collect())
}

/// What is alive.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_live() -> *mut c_char {
    lines(live())
}

/// What was done wrong.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_violations() -> *mut c_char {
    lines(driver().report.violations())
}

/// What was alive when its context ended.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_lost() -> *mut c_char {
    lines(driver().lost.lock().clone())
}

/// Forgets the two.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_reset() {
    driver().report.reset();
    driver().lost.lock().clear();
}

/// Frees a text of these functions.
///
/// # Safety
/// It is one, and was not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn longshore_double_free(text: *mut c_char) {
    // SAFETY: promised by the caller.
    drop(unsafe { CString::from_raw(text) });
}

/// What is alive, in words: objects but those that end with others, memory, and contexts.
pub(crate) fn live() -> Vec<String> {
    let is_of_program = |object: &Object| match object {
        Object::Function(_) => false,
        Object::Pool(pool) => pool.is_of_program(),
        _ => true,
    };
    let objects = driver().handles.live().into_iter().filter(|(_, object)| is_of_program(object));
    let mut live: Vec<String> =
        objects.map(|(handle, object)| format!("{} {handle:#x}", object.kind())).collect();
    if let Ok(machine) = crate::driver::machine() {
        let blocks = machine.blocks.select(|block| block.is_of_program());
        live.extend(blocks.iter().map(|block| block.describe()));
    }
    live.extend(current::retained());
    live
}

/// # Safety
/// The text ends with NUL.
unsafe fn text(start: *const c_char) -> String {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}

fn lines(lines: Vec<String>) -> *mut c_char {
    let text = lines.join("\n").replace('\0', "");
    CString::new(text).expect("NULs were taken out").into_raw()
}
