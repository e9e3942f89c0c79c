//! The parts that make a library a double. [`Double`](crate::Double) calls the functions that it
//! exports beside the driver's own. Further code runs when the library is loaded and when the
//! process ends.

use super::life;
use super::{Vendor, driver};
use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

/// Makes the library of a crate a double of a vendor's driver.
#[macro_export]
macro_rules! export_double {
    ($vendor:expr) => {
        #[used]
        #[unsafe(link_section = ".init_array")]
        static AT_START: extern "C" fn() = at_start;
        #[used]
        #[unsafe(link_section = ".fini_array")]
        static AT_END: extern "C" fn() = $crate::driver::exports::at_end;

        extern "C" fn at_start() {
            $crate::driver::exports::at_start($vendor);
        }
    };
}

/// Runs when the library is loaded.
pub fn at_start(vendor: &'static dyn Vendor) {
    life::at_start(vendor);
}

/// Runs at the end of the process.
pub extern "C" fn at_end() {
    life::at_end();
}

/// Makes the `nth` call of a function from now on fail.
///
/// # Safety
/// The name ends with NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn longshore_double_fail(name: *const c_char, nth: u64, code: u32) {
    // SAFETY: promised by the caller.
    driver().calls.fail(&unsafe { text(name) }, nth, code);
}

/// Makes each call of a function take longer.
///
/// # Safety
/// The name ends with NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn longshore_double_delay(name: *const c_char, microseconds: u64) {
    // SAFETY: promised by the caller.
    let name = unsafe { text(name) };
    driver().calls.set_delay(&name, Duration::from_micros(microseconds));
}

/// Removes all rules for failures and delays.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_clear() {
    driver().calls.clear();
}

/// Returns the called functions, each with its number of calls.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_calls() -> *mut c_char {
    let counts = driver().calls.counts();
    lines(counts.iter().map(|(name, count)| format!("{name} {count}")).collect())
}

/// Returns the live objects.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_live() -> *mut c_char {
    lines(life::live())
}

/// Returns the violations.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_violations() -> *mut c_char {
    lines(driver().report.violations())
}

/// Returns the objects that were alive when their context ended.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_lost() -> *mut c_char {
    lines(driver().lost.lock().clone())
}

/// Forgets the violations and the lost objects.
#[unsafe(no_mangle)]
extern "C" fn longshore_double_reset() {
    driver().report.reset();
    driver().lost.lock().clear();
}

/// Frees a text that one of these functions returned.
///
/// # Safety
/// `text` comes from one of these functions, and was not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn longshore_double_free(text: *mut c_char) {
    // SAFETY: promised by the caller.
    drop(unsafe { CString::from_raw(text) });
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
