//! Devices.

use crate::backend::{Physical, StreamBackend};
use crate::device_core::DeviceCore;
use crate::driver::{Context, Driver};
use crate::error;
use crate::memory::Memory;
use crate::raw_device::{RawDevice, create_stream};
use longshore_plugin_api::Result;
use std::marker::PhantomData;
use std::sync::Arc;

/// An open GPU: its context, retained once for each time that the device is opened.
///
/// LLVM: `ol_device_handle_t`, `CUDADeviceTy`, `AMDGPUDeviceTy`.
pub struct StreamDevice<B: StreamBackend> {
    pub(crate) core: Arc<DeviceCore<B::Driver>>,
    backend: PhantomData<fn() -> B>,
}

impl<B: StreamBackend> StreamDevice<B> {
    /// Opens a device: retains its context. Blocks.
    ///
    /// # Errors
    /// Errors of the driver; `Unsupported` for a setting that the driver does not support.
    pub(crate) fn open(
        driver: &Arc<B::Driver>,
        physical: &Arc<B::Physical>,
        settings: &B::Settings,
    ) -> Result<StreamDevice<B>> {
        let facts = physical.facts();
        let doing = format!("opening {} device '{}'", <B::Driver as Driver>::NAME, facts.name);
        let failed = |failure| error::driver_error(&**driver, &doing, failure);
        let context = B::retain(driver, physical)?;
        let entered = context.enter().map_err(failed)?;
        let own = B::prepare(driver, physical, settings)?;
        let service = create_stream(&**driver).map_err(failed)?;
        let memory = Memory::new(&**driver, facts, physical.ordinal())
            .map_err(failed)
            .inspect_err(|_| {
                // SAFETY: nothing was queued on the stream.
                let _ = unsafe { driver.destroy_stream(service) };
            })?;
        drop(entered);
        let raw = RawDevice::new(driver, facts, physical.ordinal(), context);
        let core = DeviceCore::new(raw, own, memory, service);
        Ok(StreamDevice { core: Arc::new(core), backend: PhantomData })
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore<B::Driver>> {
        &self.core
    }
}
