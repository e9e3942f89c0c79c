//! What is CUDA's own of an open device.

use crate::driver::Driver;
use crate::driver::types::limit;
use crate::physical::CudaPhysical;
use crate::settings::{JitSettings, LimitSettings, Settings};
use longshore_format_nvidia::Arch;
use longshore_plugin_api::Result;
use longshore_plugin_streams::{Call, Code, DeviceCore, Physical, of_driver};

/// An open device of CUDA.
pub(crate) type Core = DeviceCore<Driver>;

/// What the backend keeps for an open device.
pub struct CudaOwn {
    pub(crate) arch: Arch,
    pub(crate) jit: JitSettings,
}

impl CudaOwn {
    /// Sets the context's limits, as the user wants them. The context is current.
    ///
    /// # Errors
    /// Those of the driver; `Unsupported` for a limit that it does not take.
    pub(crate) fn prepare(
        driver: &Driver,
        physical: &CudaPhysical,
        settings: &Settings,
    ) -> Result<CudaOwn> {
        set_limits(driver, &settings.limits).map_err(|failure| {
            of_driver(driver, &format!("opening CUDA device '{}'", physical.facts().name), failure)
        })?;
        Ok(CudaOwn { arch: physical.arch, jit: settings.jit })
    }
}

/// The context is current. It may be shared with others of the process, whose limits they are then too.
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
            // Some are fixed from the first kernel on that needs them, of whoever has the context.
            Err(failure) if failure.is(Code::INVALID_VALUE) => {
                log::warn!(
                    "limit {which} of the context stays: it is in use, or cannot be {bytes} bytes"
                );
            }
            set => set?,
        }
    }
    Ok(())
}
