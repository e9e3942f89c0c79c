//! Functions that need no initialised driver.

use crate::code::RESULTS;
use longshore_double_gpu::driver::{
    Code, DriverResult, Out, broken, describe, driver, initialize, machine,
};
use std::ffi::CStr;

/// Initialises the runtime. The settings can make it fail: `devices=0` is a runtime without
/// devices, and `init=999` makes `hipInit` return the code 999.
pub(crate) fn init(flags: u32) -> DriverResult {
    if flags != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("hipInit with flags {flags:#x}")));
    }
    start()
}

/// Initialises the runtime at each function that needs devices, as a program need not call
/// `hipInit`.
///
/// # Errors
/// The result from the settings.
pub(crate) fn start() -> DriverResult {
    let settings = &driver().settings;
    match settings.number("init", 0) {
        0 if settings.number("devices", 1) > 0 => initialize(),
        0 if major() < 6 => Err(Code::INVALID_DEVICE),
        0 => Err(Code::NO_DEVICE),
        code => Err(Code(code as u32)),
    }
}

/// Stores the number of devices. Fails without devices in all versions.
pub(crate) fn device_count(count: Out<i32>) -> DriverResult {
    if driver().settings.number("devices", 1) == 0 {
        count.put(0)?;
        return Err(Code::NO_DEVICE);
    }
    start()?;
    count.put(machine()?.devices.len() as i32)
}

/// Stores the version as a number; "6.4" becomes the number 60400000.
pub(crate) fn runtime_version(version: Out<i32>) -> DriverResult {
    let (major, minor) = hip_version();
    version.put((major * 10_000_000 + minor * 100_000) as i32)
}

pub(crate) fn error_name(result: u32) -> &'static CStr {
    describe(RESULTS, result).map_or(c"hipErrorUnknown", |(name, _)| name)
}

pub(crate) fn error_text(result: u32) -> &'static CStr {
    describe(RESULTS, result).map_or(c"unknown error", |(_, words)| words)
}

/// Returns the major version of HIP, which determines the double's features.
pub(crate) fn major() -> u32 {
    hip_version().0
}

fn hip_version() -> (u32, u32) {
    driver().settings.version("version", (7, 2))
}
