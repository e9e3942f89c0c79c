//! Open devices.

mod close;
pub(crate) mod core;
pub(crate) mod events;
mod info;
mod memory;
mod pool_totals;

pub use close::{CloseReport, Leak};

use crate::discovery::LoadedPlugin;
use crate::host::shared::HostShared;
use crate::host_function;
use crate::memory::AllocationTable;
use crate::selection::DeviceFacts;
use core::{DeviceCore, DeviceGuard};
use longshore_plugin_api::{
    Acceptance, CodeTarget, Device as _, DeviceInfo, Error, ErrorCode, InfoValue, PoolTracker,
    Result,
};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

/// An open device. Cloning is cheap, and all clones are the same device. The device is closed by
/// [`Device::close`], or when the last handle to the device and to its programs, queues, events and
/// memory is dropped. Any thread may call the methods. LLVM: `ol_device_handle_t`.
///
/// ```
/// let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// let device = host.default_device()?;
/// println!("{}: {} compute units", device.name(), device.compute_units()?);
///
/// let queue = device.queue()?;
/// let squares = device.buffer_of(&queue, &[1u32, 4, 9])?;
/// assert_eq!(squares.to_vec(&queue)?, [1, 4, 9]);
///
/// drop(squares);
/// let report = device.close()?;
/// assert!(report.leaks.is_empty());
/// # Ok::<(), longshore::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    core: ManuallyDrop<Arc<DeviceCore>>,
}

impl Device {
    /// Returns a number that no other open device of this process has or had.
    #[inline]
    pub fn id(&self) -> u64 {
        self.core.id
    }

    /// Returns the device's backend, index and name as one text: "cuda:0 (NVIDIA H200)".
    pub fn name(&self) -> String {
        self.core.facts.to_string()
    }

    /// Returns the name of the backend that provides the device, such as "cuda".
    pub fn backend(&self) -> &str {
        &self.core.facts.backend
    }

    /// Returns the device's index among the backend's devices, from 0.
    pub fn index(&self) -> u32 {
        self.core.facts.index
    }

    /// Returns the answer to a query. For each query a getter, such as [`Device::compute_units`],
    /// returns the answer in its own type. Works on a closed device, too. LLVM: `olGetDeviceInfo`.
    ///
    /// # Errors
    /// `Unimplemented` if the device has no answer; errors of the driver.
    pub fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        self.core.info(query)
    }

    /// Returns whether the backend accepts this image as it is, or the reason for the refusal. A
    /// refused container may still hold an image that the backend accepts: see [`Device::suits`].
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        self.remote()?.accepts(image)
    }

    /// Returns the sum of the memory-pool trackers of all images that were unloaded from this
    /// device; `None` if no such image had a tracker. [`CloseReport::tracker`] has the final sum,
    /// too. Does not block.
    pub fn pool_totals(&self) -> Option<PoolTracker> {
        self.core.totals.lock().get()
    }

    /// Returns whether kernels of this device can access memory of `peer`. Always false for a
    /// device of another platform.
    ///
    /// # Errors
    /// `Unsupported` if the plugin has no answer, `Uninitialized` if one of the devices was closed.
    pub fn can_access(&self, peer: &Device) -> Result<bool> {
        if !self.same_platform(peer) {
            return Ok(false);
        }
        self.remote()?.can_access(&**peer.remote()?)
    }

    /// Allows kernels of this device to access memory of `peer`. May block.
    ///
    /// # Errors
    /// `Unsupported` if this device cannot access memory of `peer`, `Uninitialized` if one of the
    /// devices was closed; errors of the driver.
    pub fn enable_access(&self, peer: &Device) -> Result<()> {
        if !self.same_platform(peer) {
            let message = format!("{} cannot reach memory of {}", self.name(), peer.name());
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        self.remote()?.enable_access(&**peer.remote()?)
    }

    /// Returns the driver's number of the device, by which the program itself reaches the device in
    /// the driver: `CUdevice`, `hipDevice_t`.
    ///
    /// # Errors
    /// `Unsupported` for a device without a driver, or of an isolated plugin. `Uninitialized` if
    /// the device was closed; errors of the driver.
    pub fn driver_device(&self) -> Result<u64> {
        self.remote()?.driver_device()
    }

    /// Returns the driver's handle of the device's context, `CUcontext`; 0 if the driver has no
    /// contexts. The context is valid until the device is closed.
    ///
    /// # Errors
    /// As for [`Device::driver_device`].
    pub fn driver_context(&self) -> Result<u64> {
        self.remote()?.driver_context()
    }

    /// Returns the target for which [`Device::load`] compiles LLVM bitcode: triple, processor and
    /// features.
    ///
    /// # Errors
    /// `Unsupported` for a device that LLVM does not compile for, `Uninitialized` if the device was
    /// closed.
    pub fn code_target(&self) -> Result<CodeTarget> {
        self.remote()?.code_target()
    }

    /// Closes the device: unloads the loaded programs, newest first, waits for the queues, frees
    /// live allocations and reports them as leaks. Later calls through handles of the device return
    /// `Uninitialized`. An error does not stop the remaining steps. Blocks.
    ///
    /// # Errors
    /// The first error of any step; later errors are logged. `Uninitialized` if the device was
    /// closed before. `Unsupported` in a host function of one of the device's queues; the device
    /// then stays open.
    pub fn close(self) -> Result<CloseReport> {
        host_function::refuse_inside(self.id(), "closing a device")?;
        self.core.close()
    }
}

impl Device {
    /// Opens a device of a plugin.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn open(
        host: &Arc<HostShared>,
        plugin: &Arc<LoadedPlugin>,
        facts: &DeviceFacts,
    ) -> Result<Device> {
        DeviceCore::open(host, plugin, facts).map(Device::from_core)
    }

    /// Returns the open device of a host that has this id.
    ///
    /// # Errors
    /// `InvalidDevice` if the device is not open any more.
    pub(crate) fn from_id(host: &HostShared, id: u64) -> Result<Device> {
        let core = host.open_devices.lock().get(&id).and_then(Weak::upgrade);
        core.map(Device::from_core).ok_or_else(|| {
            Error::new(ErrorCode::InvalidDevice, "the device of this memory was closed")
        })
    }

    /// Returns the open devices of a host. Each stays open until the caller drops it.
    pub(crate) fn all_open(host: &HostShared) -> impl Iterator<Item = Device> {
        let open: Vec<_> = host.open_devices.lock().values().cloned().collect();
        open.into_iter().filter_map(|core| core.upgrade()).map(Device::from_core)
    }

    pub(crate) fn from_core(core: Arc<DeviceCore>) -> Device {
        Device { core: ManuallyDrop::new(core) }
    }

    pub(crate) fn core(&self) -> &DeviceCore {
        &self.core
    }

    pub(crate) fn downgrade(&self) -> Weak<DeviceCore> {
        Arc::downgrade(&self.core)
    }

    pub(crate) fn table(&self) -> &AllocationTable {
        &self.core.host.table
    }

    /// Returns a guard of the plugin's device. Closing the device waits until the guard is dropped.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub(crate) fn remote(&self) -> Result<DeviceGuard<'_>> {
        self.core.remote()
    }

    /// Returns the error for a device that is not open any more.
    #[cold]
    pub(crate) fn closed(&self) -> Error {
        self.core.closed()
    }

    /// Checks that both handles are of the same device. `what` names the object of `other` in the
    /// error.
    ///
    /// # Errors
    /// `InvalidDevice` if the devices differ.
    #[inline]
    pub(crate) fn check_same(&self, other: &Device, what: &str) -> Result<()> {
        if self.id() == other.id() {
            return Ok(());
        }
        let message = format!("{what} belongs to {}, the call is to {}", other.name(), self.name());
        Err(Error::new(ErrorCode::InvalidDevice, message))
    }

    pub(crate) fn same_platform(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.core.plugin, &other.core.plugin)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: `core` is taken here once, and no code uses a dropped handle.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        let Some(last) = Arc::into_inner(core) else {
            return;
        };
        if !last.remote.is_closed() && host_function::is_inside(last.id) {
            host_function::do_elsewhere("dropping a device", move || drop(last));
        }
    }
}
