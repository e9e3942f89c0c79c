//! AMD's own data of an open device.

use crate::driver::Driver;
use crate::driver::types::{LIMIT_STACK_SIZE, limit};
use crate::messages::{Ring, UsedBytes};
use crate::physical::AmdgpuPhysical;
use crate::settings::Settings;
use longshore_format_amdgpu::Target;
use longshore_plugin_api::Result;
use longshore_plugin_streams::{
    Call, Code, DeviceCore, DevicePtr, Driver as _, Physical, driver_error,
};
use parking_lot::Mutex;
use std::sync::OnceLock;

/// An open AMD device.
pub(crate) type Core = DeviceCore<Driver>;

/// The backend's own data of an open device.
pub struct AmdgpuDeviceData {
    pub(crate) target: Target,
    pub(crate) linker: Option<String>,
    printf_bytes: usize,
    /// The ring of messages, created at the first image that may have some.
    ring: OnceLock<Mutex<Ring>>,
    /// The ring's counter of used bytes.
    used: UsedBytes,
    /// Held while the ring is created.
    making: Mutex<()>,
}

impl AmdgpuDeviceData {
    /// Sets the device's limits from the settings, and creates the data. The device is current.
    ///
    /// # Errors
    /// Errors of HIP; `Unsupported` for a limit that HIP does not support.
    pub(crate) fn prepare(
        driver: &Driver,
        physical: &AmdgpuPhysical,
        settings: &Settings,
    ) -> Result<AmdgpuDeviceData> {
        set_limits(driver, settings).map_err(|failure| {
            let doing = format!("opening HIP device '{}'", physical.facts().name);
            driver_error(driver, &doing, failure)
        })?;
        Ok(AmdgpuDeviceData {
            target: physical.target.clone(),
            linker: settings.linker.clone(),
            printf_bytes: settings.printf_bytes,
            ring: OnceLock::new(),
            used: UsedBytes::none(),
            making: Mutex::new(()),
        })
    }

    /// Returns the address of the ring of messages. The first call creates the ring.
    ///
    /// # Errors
    /// Errors of HIP.
    pub(crate) fn ring(&self, device: &Core) -> Result<DevicePtr> {
        let _making = self.making.lock();
        if let Some(ring) = self.ring.get() {
            return Ok(ring.lock().address());
        }
        let mut address = 0;
        device.call("allocating the ring of messages of kernels", |driver| {
            // SAFETY: the device is current.
            unsafe { driver.allocate_host(&mut address, self.printf_bytes) }
        })?;
        // SAFETY: the host memory has this size and at least this alignment, and lives until the
        // device closes.
        let ring = unsafe { Ring::new(address, self.printf_bytes) };
        self.used.look_at(&ring);
        let _ = self.ring.set(Mutex::new(ring));
        Ok(address)
    }

    /// Prints the present messages of kernels. Costs almost nothing without messages. `is_idle`
    /// returns whether all kernels on the device are known to be done.
    #[inline]
    pub(crate) fn print_messages(&self, is_idle: impl Fn() -> bool) {
        if !self.used.is_nothing() {
            self.print_some(is_idle);
        }
    }

    #[cold]
    fn print_some(&self, is_idle: impl Fn() -> bool) {
        if let Some(ring) = self.ring.get() {
            ring.lock().print(is_idle);
        }
    }

    /// Prints the remaining messages, and frees the ring. Nothing runs on the device, now or later.
    pub(crate) fn close(&self, driver: &Driver) {
        if let Some(ring) = self.ring.get() {
            let mut ring = ring.lock();
            ring.print(|| true);
            // SAFETY: `ring` allocated the memory in this way; a device is closed once, and no
            // thread waits for it then.
            let _ = unsafe { driver.free_host(ring.address()) };
        }
    }
}

/// Sets limits of the current device. HIP applies them to the whole process.
fn set_limits(driver: &Driver, wanted: &Settings) -> Call {
    let limits =
        [(LIMIT_STACK_SIZE, wanted.stack_bytes), (limit::MALLOC_HEAP_SIZE, wanted.heap_bytes)];
    for (which, bytes) in limits {
        let Some(bytes) = bytes else { continue };
        // SAFETY: the device is current.
        match unsafe { driver.hipDeviceSetLimit(which, bytes) } {
            // Some limits are fixed after the first kernel.
            Err(failure) if failure.is(Code::INVALID_VALUE) => {
                log::warn!(
                    "limit {which} of the device is unchanged: it is in use, or cannot be \
                     {bytes} bytes"
                );
            }
            set => set?,
        }
    }
    Ok(())
}
