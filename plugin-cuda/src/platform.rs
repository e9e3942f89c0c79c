//! The platform and its devices.

use crate::driver::{Driver, NAME, result};
use crate::physical::CudaPhysical;
use crate::settings::Settings;
use crate::{CudaBackend, CudaPlatform};
use longshore_plugin_api::{Connected, Result};
use longshore_plugin_streams::{Code, Failure, driver_error};
use std::sync::Arc;

/// Opens the driver and queries its devices. Blocks.
///
/// # Errors
/// Errors of a driver that is present.
pub(crate) fn connect(settings: Settings) -> Result<Connected<CudaPlatform>> {
    let driver = match Driver::open(settings.driver.as_deref()) {
        Ok(driver) => Arc::new(driver),
        Err(why) => return Ok(Connected::NoDriver(why)),
    };
    // SAFETY: the function has no precondition.
    match unsafe { driver.cuInit(0) } {
        Ok(()) => {}
        Err(failure) if failure.is(Code::NO_DEVICE) => {
            return Ok(Connected::NoDevice("the CUDA driver has no device".to_owned()));
        }
        Err(failure) => return not_initialised(&driver, failure),
    }
    let count = |driver: &Driver, count: &mut i32| {
        // SAFETY: the output is a local variable.
        unsafe { driver.cuDeviceGetCount(count) }
    };
    longshore_plugin_streams::StreamPlatform::<CudaBackend>::connect(
        driver,
        settings,
        count,
        CudaPhysical::query,
    )
}

/// Reports a failed initialization. A library that only stands in for the driver counts as no
/// driver.
fn not_initialised(driver: &Driver, failure: Failure) -> Result<Connected<CudaPlatform>> {
    let error = driver_error(driver, "initialising the CUDA driver", failure);
    if failure.result.is_none_or(|code| code == result::STUB_LIBRARY) {
        return Ok(Connected::NoDriver(format!("{NAME} is not a driver: {error}")));
    }
    Err(error)
}
