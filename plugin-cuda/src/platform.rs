//! The platform: which devices there are.

use crate::context::PrimaryContext;
use crate::driver::types::{Device, DevicePtr};
use crate::driver::{CuResult, Driver, Failure, NAME};
use crate::physical::Physical;
use crate::settings::Settings;
use crate::{CudaBackend, CudaDevice, error};
use longshore_plugin_api::{
    Connected, DeviceInfo, Error, ErrorCode, InfoValue, Platform, PlatformInfo, Result,
};
use std::sync::Arc;

/// The GPUs that the CUDA driver shows, in its order: that of `CUDA_VISIBLE_DEVICES`, where the user
/// has set it.
///
/// LLVM: `CUDAPluginTy`.
pub struct CudaPlatform {
    driver: Arc<Driver>,
    devices: Vec<Arc<Physical>>,
    settings: Settings,
}

impl CudaPlatform {
    /// Looks for the driver and its devices. Blocks.
    pub(crate) fn connect(settings: Settings) -> Result<Connected<CudaPlatform>> {
        let driver = match Driver::open(settings.driver.as_deref()) {
            Ok(driver) => Arc::new(driver),
            Err(why) => return Ok(Connected::NoDriver(why)),
        };
        // SAFETY: the function has no precondition.
        match unsafe { driver.cuInit(0) } {
            Ok(()) => {}
            Err(failure) if failure.is(CuResult::NO_DEVICE) => {
                return Ok(Connected::NoDevice("the CUDA driver has no device".to_owned()));
            }
            Err(failure) => return not_initialised(&driver, failure),
        }
        let count = device_count(&driver)?;
        if count == 0 {
            return Ok(Connected::NoDevice("the CUDA driver has no device".to_owned()));
        }
        let (mut devices, mut first_error) = (Vec::new(), None);
        for ordinal in 0..count {
            match Physical::query(&driver, ordinal) {
                Ok(physical) => devices.push(Arc::new(physical)),
                Err(error) => {
                    log::warn!("passed over: {error}");
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first_error.filter(|_| devices.is_empty()) {
            return Err(error);
        }
        Ok(Connected::Platform(CudaPlatform { driver, devices, settings }))
    }
}

/// What stands in the driver's place without being one is no driver.
fn not_initialised(driver: &Driver, failure: Failure) -> Result<Connected<CudaPlatform>> {
    let error = error::driver(driver, "initialising the CUDA driver", failure);
    if failure.result.is_none_or(|result| result == CuResult::STUB_LIBRARY) {
        return Ok(Connected::NoDriver(format!("{NAME} is no driver: {error}")));
    }
    Err(error)
}

fn device_count(driver: &Driver) -> Result<Device> {
    let mut count = 0;
    // SAFETY: the output is ours.
    let counted = unsafe { driver.cuDeviceGetCount(&mut count) };
    counted.map_err(|failure| error::driver(driver, "counting CUDA devices", failure))?;
    Ok(count)
}

impl Platform<CudaBackend> for CudaPlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        Ok(match query {
            PlatformInfo::Name => "CUDA".to_owned(),
            PlatformInfo::VendorName => "NVIDIA".to_owned(),
            PlatformInfo::Version => self.driver.version_text(),
        })
    }

    fn device_count(&self) -> u32 {
        self.devices.len() as u32
    }

    /// [`DeviceInfo::FreeMemory`] makes the device's context for the moment, if nobody has it open:
    /// it blocks for as long as that takes.
    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let physical = &self.devices[index as usize];
        match query {
            DeviceInfo::FreeMemory => free_memory(physical).map(InfoValue::U64),
            _ => physical.info(query),
        }
    }

    fn open(&self, index: u32) -> Result<CudaDevice> {
        CudaDevice::open(&self.devices[index as usize], &self.settings)
    }
}

fn free_memory(physical: &Arc<Physical>) -> Result<DevicePtr> {
    let doing = format!("asking how much memory of '{}' is free", physical.name);
    let failed = |failure| error::driver(&physical.driver, &doing, failure);
    let context = PrimaryContext::retain(physical).map_err(failed)?;
    let (mut free, mut total) = (0, 0);
    let current = context.enter().map_err(failed)?;
    // SAFETY: the outputs are ours; the device's context is current.
    let asked = unsafe { physical.driver.cuMemGetInfo(&mut free, &mut total) };
    drop(current);
    let released = context.release().map_err(failed);
    asked.map_err(failed).and(released)?;
    u64::try_from(free).map_err(|_| Error::new(ErrorCode::BackendFailure, doing))
}
