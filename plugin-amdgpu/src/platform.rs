//! The platform and its devices.

use crate::AmdgpuPlatform;
use crate::driver::{Driver, result};
use crate::physical::AmdgpuPhysical;
use crate::settings::Settings;
use longshore_plugin_api::{Connected, Result};
use longshore_plugin_streams::{Code, Driver as _, Failure, driver_error};
use std::sync::Arc;

/// Opens HIP and queries its devices. Blocks.
///
/// # Errors
/// Errors of a HIP that is present.
pub(crate) fn connect(settings: Settings) -> Result<Connected<AmdgpuPlatform>> {
    let driver = match Driver::open(settings.driver.as_deref()) {
        Ok(driver) => Arc::new(driver),
        Err(why) => return Ok(Connected::NoDriver(why)),
    };
    // SAFETY: the function has no precondition.
    match unsafe { driver.hipInit(0) } {
        Ok(()) => {}
        Err(failure) => return not_initialised(&driver, failure),
    }
    let count = |driver: &Driver, count: &mut i32| {
        // SAFETY: the output is a local variable.
        unsafe { driver.hipGetDeviceCount(count) }
    };
    let pools = settings.pools;
    let query = |driver: &Arc<Driver>, ordinal: i32| AmdgpuPhysical::query(driver, ordinal, pools);
    AmdgpuPlatform::connect(driver, settings, count, query)
}

/// Reports a failed initialization. A library that only stands in for HIP counts as no driver.
fn not_initialised(driver: &Driver, failure: Failure) -> Result<Connected<AmdgpuPlatform>> {
    match failure.result {
        None => Ok(Connected::NoDriver(format!(
            "the library is not a HIP runtime: it lacks {}",
            failure.function
        ))),
        Some(code) if result::is_no_device(code) => Ok(no_device(driver, code)),
        Some(_) => Err(driver_error(driver, "initialising HIP", failure)),
    }
}

fn no_device(driver: &Driver, code: Code) -> Connected<AmdgpuPlatform> {
    let name = driver.name(code).unwrap_or_else(|| format!("{code:?}"));
    let version = driver.version_text();
    Connected::NoDevice(format!("HIP {version} has no device: hipInit returned {name}, {}", code.0))
}
