//! What is AMD's own of an open device.

use crate::driver::Driver;
use crate::driver::types::{LIMIT_STACK_SIZE, limit};
use crate::messages::{Ring, Used};
use crate::physical::AmdgpuPhysical;
use crate::settings::Settings;
use longshore_format_amdgpu::Target;
use longshore_plugin_api::Result;
use longshore_plugin_streams::{
    Call, Code, DeviceCore, DevicePtr, Driver as _, Physical, driver_error,
};
use parking_lot::Mutex;
use std::sync::OnceLock;

/// An open device of AMD.
pub(crate) type Core = DeviceCore<Driver>;

/// What the backend keeps for an open device.
pub struct AmdgpuOwn {
    pub(crate) target: Target,
    pub(crate) linker: Option<String>,
    printf_bytes: usize,
    /// Where kernels leave messages, from the first image on that may have some.
    ring: OnceLock<Mutex<Ring>>,
    /// How much of it is used.
    used: Used,
    /// Whoever makes the ring.
    making: Mutex<()>,
}

impl AmdgpuOwn {
    /// Sets the device's limits, as the user wants them. The device is current.
    ///
    /// # Errors
    /// Those of HIP; `Unsupported` for a limit that it does not take.
    pub(crate) fn prepare(
        driver: &Driver,
        physical: &AmdgpuPhysical,
        settings: &Settings,
    ) -> Result<AmdgpuOwn> {
        set_limits(driver, settings).map_err(|failure| {
            let doing = format!("opening HIP device '{}'", physical.facts().name);
            driver_error(driver, &doing, failure)
        })?;
        Ok(AmdgpuOwn {
            target: physical.target.clone(),
            linker: settings.linker.clone(),
            printf_bytes: settings.printf_bytes,
            ring: OnceLock::new(),
            used: Used::none(),
            making: Mutex::new(()),
        })
    }

    /// Returns the address of the ring of messages, which is made if there is none.
    ///
    /// # Errors
    /// Those of HIP.
    pub(crate) fn ring(&self, device: &Core) -> Result<DevicePtr> {
        let _making = self.making.lock();
        if let Some(ring) = self.ring.get() {
            return Ok(ring.lock().address());
        }
        let mut address = 0;
        device.call("making room for messages of kernels", |driver| {
            // SAFETY: the device is current.
            unsafe { driver.allocate_host(&mut address, self.printf_bytes) }
        })?;
        // SAFETY: memory of the host of that size, and at least of its alignment, until the device closes.
        let ring = unsafe { Ring::new(address, self.printf_bytes) };
        self.used.look_at(&ring);
        let _ = self.ring.set(Mutex::new(ring));
        Ok(address)
    }

    /// Prints the messages of kernels that are there. Costs next to nothing if kernels have left none. `is_idle` tells
    /// whether all kernels on the device are known to be done.
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

    /// Prints what is left, and gives the memory back. Nothing runs on the device, nor will.
    pub(crate) fn close(&self, driver: &Driver) {
        if let Some(ring) = self.ring.get() {
            let mut ring = ring.lock();
            ring.print(|| true);
            // SAFETY: it was allocated in this way; a device is closed once, and nobody waits for it then.
            let _ = unsafe { driver.free_host(ring.address()) };
        }
    }
}

/// Returns the device is current. Its limits are those of the whole process.
fn set_limits(driver: &Driver, wanted: &Settings) -> Call {
    let limits =
        [(LIMIT_STACK_SIZE, wanted.stack_bytes), (limit::MALLOC_HEAP_SIZE, wanted.heap_bytes)];
    for (which, bytes) in limits {
        let Some(bytes) = bytes else { continue };
        // SAFETY: the device is current.
        match unsafe { driver.hipDeviceSetLimit(which, bytes) } {
            // Some are fixed from the first kernel on.
            Err(failure) if failure.is(Code::INVALID_VALUE) => {
                log::warn!(
                    "limit {which} of the device stays: it is in use, or cannot be {bytes} bytes"
                );
            }
            set => set?,
        }
    }
    Ok(())
}
