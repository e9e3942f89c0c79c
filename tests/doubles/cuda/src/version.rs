//! Functions that need no initialised driver.

use crate::code::RESULTS;
use longshore_double_gpu::driver::{
    Code, DriverResult, Out, Text, broken, describe, driver, initialize,
};
use std::ffi::{c_char, c_void};

/// Status codes of `cuGetProcAddress`.
const FOUND: u32 = 0;
const SYMBOL_NOT_FOUND: u32 = 1;
const VERSION_NOT_SUFFICIENT: u32 = 2;

/// Initialises the driver. The settings can make it fail: `devices=0` is a driver without devices,
/// and `init=999` makes `cuInit` return the code 999.
pub(crate) fn init(flags: u32) -> DriverResult {
    if flags != 0 {
        return Err(broken(Code::INVALID_VALUE, format!("cuInit with flags {flags:#x}")));
    }
    let settings = &driver().settings;
    match settings.number("init", 0) {
        0 if settings.number("devices", 1) == 0 => Err(Code::NO_DEVICE),
        0 => initialize(),
        code => Err(Code(code as u32)),
    }
}

pub(crate) fn driver_version(version: Out<i32>) -> DriverResult {
    version.put(version_number())
}

/// Stores the newest function with a name in a version of CUDA.
pub(crate) fn address_of(
    name: Text,
    function: Out<*const c_void>,
    version: i32,
    flags: u64,
    status: Out<u32>,
) -> DriverResult {
    let name = name.get()?;
    if flags > 2 || function.is_null() {
        return Err(broken(
            Code::INVALID_VALUE,
            "cuGetProcAddress with a null pointer or invalid flags",
        ));
    }
    let missing: Vec<&str> = driver().settings.list("missing").collect();
    let newest_of_driver = version_number();
    let named: Vec<_> = driver()
        .functions()
        .iter()
        .filter(|known| {
            known.base.unwrap_or(known.exported) == name && !missing.contains(&known.exported)
        })
        .filter(|known| known.since <= newest_of_driver)
        .collect();
    let fitting = named.iter().filter(|known| known.since <= version);
    match fitting.max_by_key(|known| known.since) {
        Some(found) => {
            status.put_if_wanted(FOUND);
            function.put(found.address.0)
        }
        None => {
            let is_there = !named.is_empty();
            status.put_if_wanted(if is_there { VERSION_NOT_SUFFICIENT } else { SYMBOL_NOT_FOUND });
            function.put(std::ptr::null())?;
            if status.is_null() { Err(Code::NOT_FOUND) } else { Ok(()) }
        }
    }
}

pub(crate) fn error_name(result: u32, name: Out<*const c_char>) -> DriverResult {
    let (found, _) = described(result, name)?;
    name.put(found.as_ptr())
}

pub(crate) fn error_text(result: u32, text: Out<*const c_char>) -> DriverResult {
    let (_, found) = described(result, text)?;
    text.put(found.as_ptr())
}

fn described(
    result: u32,
    place: Out<*const c_char>,
) -> DriverResult<(&'static std::ffi::CStr, &'static std::ffi::CStr)> {
    describe(RESULTS, result).ok_or_else(|| {
        place.put_if_wanted(std::ptr::null());
        Code::INVALID_VALUE
    })
}

/// Returns the version of CUDA.
pub(crate) fn cuda_version() -> (u32, u32) {
    driver().settings.version("driver", (12, 8))
}

fn version_number() -> i32 {
    let (major, minor) = cuda_version();
    (major * 1000 + minor * 10) as i32
}
