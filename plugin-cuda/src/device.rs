//! CUDA's own data of an open device.

use crate::driver::Driver;
use crate::driver::types::limit;
use crate::physical::CudaPhysical;
use crate::settings::{JitSettings, LimitSettings, Settings};
use longshore_format_nvidia::Arch;
use longshore_plugin_api::Result;
use longshore_plugin_streams::{Call, Code, DeviceCore, Physical, driver_error};

/// An open CUDA device.
pub(crate) type Core = DeviceCore<Driver>;

/// The backend's own data of an open device.
pub struct CudaDeviceData {
    pub(crate) arch: Arch,
    pub(crate) jit: JitSettings,
}

impl CudaDeviceData {
    /// Sets the context's limits from the settings, and creates the data. The context is current.
    ///
    /// # Errors
    /// Errors of the driver; `Unsupported` for a limit that the driver does not support.
    pub(crate) fn prepare(
        driver: &Driver,
        physical: &CudaPhysical,
        settings: &Settings,
    ) -> Result<CudaDeviceData> {
        set_limits(driver, &settings.limits).map_err(|failure| {
            driver_error(
                driver,
                &format!("opening CUDA device '{}'", physical.facts().name),
                failure,
            )
        })?;
        Ok(CudaDeviceData { arch: physical.arch, jit: settings.jit })
    }
}

/// Sets limits of the current context. Other code of the process that shares the context has the
/// same limits.
fn set_limits(driver: &Driver, wanted: &LimitSettings) -> Call {
    let limits = [
        (limit::STACK_SIZE, wanted.stack_bytes),
        (limit::MALLOC_HEAP_SIZE, wanted.heap_bytes),
        (limit::PRINTF_FIFO_SIZE, wanted.printf_bytes),
    ];
    for (which, bytes) in limits {
        let Some(bytes) = bytes else { continue };
        // SAFETY: the context is current.
        match unsafe { driver.cuCtxSetLimit(which, bytes) } {
            // Some limits are fixed once any code of the process has launched a kernel that uses
            // them.
            Err(failure) if failure.is(Code::INVALID_VALUE) => {
                log::warn!(
                    "limit {which} of the context is unchanged: it is in use, or cannot be \
                     {bytes} bytes"
                );
            }
            set => set?,
        }
    }
    Ok(())
}
