//! CUDA's own data of an open device.

use crate::driver::Driver;
use crate::driver::types::limit;
use crate::physical::CudaPhysical;
use crate::settings::{JitSettings, LimitSettings, Settings};
use longshore_format_nvidia::Arch;
use longshore_plugin_api::{CodeTarget, Result};
use longshore_plugin_streams::{Call, Code, DeviceCore, Physical, driver_error};

/// An open CUDA device.
pub(crate) type Core = DeviceCore<Driver>;

/// The backend's own data of an open device.
pub struct CudaDeviceData {
    pub(crate) arch: Arch,
    pub(crate) jit: JitSettings,
    /// The newest version of PTX that the driver takes, times ten.
    ptx: u32,
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
        let ptx = newest_ptx(driver.version);
        Ok(CudaDeviceData { arch: physical.arch, jit: settings.jit, ptx })
    }

    /// Returns the target for which LLVM compiles PTX for this device.
    pub(crate) fn code_target(&self) -> CodeTarget {
        CodeTarget {
            triple: "nvptx64-nvidia-cuda".to_owned(),
            processor: self.arch.to_string(),
            features: format!("+ptx{}", self.ptx),
        }
    }
}

/// Returns the newest version of PTX, times ten, that a driver of a CUDA version takes. NVIDIA's
/// "PTX ISA Release History" has the table. The version of CUDA is as `cuDriverGetVersion` encodes
/// it. A driver later than the table takes at least the last version.
fn newest_ptx(cuda: i32) -> u32 {
    /// First versions of CUDA, as major and minor number, with their version of PTX.
    const RELEASES: &[(i32, u32)] = &[
        (90, 60),
        (91, 61),
        (92, 62),
        (100, 63),
        (101, 64),
        (102, 65),
        (110, 70),
        (111, 71),
        (112, 72),
        (113, 73),
        (114, 74),
        (115, 75),
        (116, 76),
        (117, 77),
        (118, 78),
        (120, 80),
        (121, 81),
        (122, 82),
        (123, 83),
        (124, 84),
        (125, 85),
        (127, 86),
        (128, 87),
        (129, 88),
        (130, 90),
    ];
    let release = cuda / 1000 * 10 + cuda % 1000 / 10;
    let known = RELEASES.iter().rev().find(|(first, _)| *first <= release);
    known.map_or(RELEASES[0].1, |(_, ptx)| *ptx)
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

#[cfg(test)]
mod tests {
    use super::newest_ptx;

    #[test]
    fn a_driver_takes_the_ptx_of_its_release_and_earlier_ones() {
        let versions = [8000, 9000, 11040, 12000, 12060, 12080, 13000, 14020];
        assert_eq!(versions.map(newest_ptx), [60, 60, 74, 80, 85, 87, 90, 90]);
    }
}
