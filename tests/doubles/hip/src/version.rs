//! What can be asked before anything else.

use crate::code::RESULTS;
use longshore_double_gpu::driver::{
    Code, DriverResult, Out, broken, describe, driver, initialize, machine,
};
use std::ffi::CStr;

/// Fails as the settings say: `devices=0` is a runtime without devices, `init=999` one that does not start.
pub(crate) fn init(flags: u32) -> DriverResult {
    if flags != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("hipInit with flags {flags:#x}")));
    }
    start()
}

/// What each function does that needs devices, as nobody has to call `hipInit`.
///
/// # Errors
/// What the settings say.
pub(crate) fn start() -> DriverResult {
    let settings = &driver().settings;
    match settings.number("init", 0) {
        0 if settings.number("devices", 1) > 0 => initialize(),
        0 if major() < 6 => Err(Code::INVALID_DEVICE),
        0 => Err(Code::NO_DEVICE),
        code => Err(Code(code as u32)),
    }
}

/// Without devices, it is an error in all versions.
pub(crate) fn device_count(count: Out<i32>) -> DriverResult {
    if driver().settings.number("devices", 1) == 0 {
        count.put(0)?;
        return Err(Code::NO_DEVICE);
    }
    start()?;
    count.put(machine()?.devices.len() as i32)
}

/// "6.4" is 60400000.
pub(crate) fn runtime_version(version: Out<i32>) -> DriverResult {
    let (major, minor) = runtime_numbers();
    version.put((major * 10_000_000 + minor * 100_000) as i32)
}

pub(crate) fn error_name(result: u32) -> &'static CStr {
    describe(RESULTS, result).map_or(c"hipErrorUnknown", |(name, _)| name)
}

pub(crate) fn error_text(result: u32) -> &'static CStr {
    describe(RESULTS, result).map_or(c"unknown error", |(_, words)| words)
}

/// Returns the version of HIP, by which it is known what there is.
pub(crate) fn major() -> u32 {
    runtime_numbers().0
}

fn runtime_numbers() -> (u32, u32) {
    driver().settings.version("version", (7, 2))
}
