//! The platform and its devices.

use crate::backend::{Physical, StreamBackend};
use crate::call::{Code, Failure};
use crate::driver::{Context, Driver};
use crate::error;
use longshore_plugin_api::{Connected, ErrorCode, Result};
use std::sync::Arc;

/// The GPUs that a driver lists, in its order. The user may set both with `CUDA_VISIBLE_DEVICES` or
/// its equivalents.
pub struct StreamPlatform<B: StreamBackend> {
    pub(crate) driver: Arc<B::Driver>,
    pub(crate) devices: Vec<Arc<B::Physical>>,
    pub(crate) settings: B::Settings,
}

impl<B: StreamBackend> StreamPlatform<B> {
    /// Connects to an initialized driver and queries its devices. `count` queries their number,
    /// `query` the properties of the device of an ordinal. Blocks.
    ///
    /// # Errors
    /// Errors of the driver; the error of a device that cannot be queried, if no device can.
    pub fn connect(
        driver: Arc<B::Driver>,
        settings: B::Settings,
        count: impl FnOnce(&B::Driver, &mut i32) -> Result<(), Failure>,
        query: impl Fn(&Arc<B::Driver>, i32) -> Result<B::Physical>,
    ) -> Result<Connected<StreamPlatform<B>>> {
        let name = <B::Driver as Driver>::NAME;
        let mut devices_count = 0;
        match count(&driver, &mut devices_count) {
            Ok(()) => {}
            Err(failure) if failure.is(Code::NO_DEVICE) => devices_count = 0,
            Err(Failure { function, result: None }) => {
                let why = format!("the library is not a usable {name} driver: it lacks {function}");
                return Ok(Connected::NoDriver(why));
            }
            Err(failure) => {
                return Err(error::driver_error(
                    &*driver,
                    &format!("counting {name} devices"),
                    failure,
                ));
            }
        }
        if devices_count <= 0 {
            return Ok(Connected::NoDevice(format!("the {name} driver has no device")));
        }
        let (mut devices, mut first_error) = (Vec::new(), None);
        for ordinal in 0..devices_count {
            match query(&driver, ordinal) {
                Ok(physical) => devices.push(Arc::new(physical)),
                Err(error) => {
                    log::warn!("a device is skipped: {error}");
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error.filter(|_| devices.is_empty()) {
            // The driver lacks a function without which no device can be queried.
            Some(error) if error.code() == ErrorCode::Unsupported && error.vendor().is_none() => {
                Ok(Connected::NoDriver(error.message().to_owned()))
            }
            Some(error) => Err(error),
            None => Ok(Connected::Platform(StreamPlatform { driver, devices, settings })),
        }
    }

    /// Returns the number of free bytes of a device's memory. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn free_bytes(&self, physical: &Arc<B::Physical>) -> Result<u64> {
        let doing = format!("querying the free memory of '{}'", physical.facts().name);
        let failed = |failure| error::driver_error(&*self.driver, &doing, failure);
        let context = B::retain(&self.driver, physical)?;
        let mut free = 0;
        let current = context.enter().map_err(failed)?;
        // SAFETY: the device's context is current.
        let asked = unsafe { self.driver.free_bytes(&mut free) };
        drop(current);
        let released = context.release();
        asked.and(released).map_err(failed).map(|()| free)
    }
}
