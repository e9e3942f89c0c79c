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
    Acceptance, Device as _, DeviceInfo, Error, ErrorCode, InfoValue, PoolTracker, Result,
};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

/// An open device. Cloning is cheap; it is closed by [`Device::close`] or when the last handle to
/// it and to anything on it is dropped. LLVM: `ol_device_handle_t`.
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

    /// "cuda:0 (NVIDIA H200)".
    pub fn name(&self) -> String {
        self.core.facts.to_string()
    }

    /// Returns the backend that provides it.
    pub fn backend(&self) -> &str {
        &self.core.facts.backend
    }

    /// Returns its index among the backend's devices.
    pub fn index(&self) -> u32 {
        self.core.facts.index
    }

    /// Answers a query. A getter, such as [`Device::compute_units`], returns the answer in its own
    /// type. LLVM: `olGetDeviceInfo`.
    ///
    /// # Errors
    /// `Unimplemented` if the device has no answer.
    pub fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        self.core.info(query)
    }

    /// Returns whether the backend takes this image as it is; if not, why. A container may still hold one that it
    /// takes: see [`Device::suits`].
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        self.remote()?.accepts(image)
    }

    /// What the images that were unloaded from it allocated on the device, by their memory-pool
    /// trackers; `None` if none of them had one. The last answer of a closed device is in its
    /// [`CloseReport`] too.
    pub fn pool_totals(&self) -> Option<PoolTracker> {
        self.core.totals.lock().get()
    }

    /// Returns whether kernels of this device can reach memory of `peer`.
    ///
    /// # Errors
    /// `Unsupported` if the plugin cannot say.
    pub fn can_access(&self, peer: &Device) -> Result<bool> {
        if !self.same_platform(peer) {
            return Ok(false);
        }
        self.remote()?.can_access(&**peer.remote()?)
    }

    /// Lets kernels of this device reach memory of `peer`. May block.
    ///
    /// # Errors
    /// `Unsupported` if they cannot.
    pub fn enable_access(&self, peer: &Device) -> Result<()> {
        if !self.same_platform(peer) {
            let message = format!("{} cannot reach memory of {}", self.name(), peer.name());
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        self.remote()?.enable_access(&**peer.remote()?)
    }

    /// Closes it: unloads the programs that are left, newest first, waits for the queues, frees
    /// what is allocated and reports that as leaked. Handles to anything on it then answer
    /// `Uninitialized`. All steps are taken whatever fails. Blocks.
    ///
    /// # Errors
    /// The first error of any step; the others are logged. `Uninitialized` if it was closed.
    /// `Unsupported` in a host function of one of its queues, where it stays open.
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
    /// `InvalidDevice` if it is not open any more.
    pub(crate) fn from_id(host: &HostShared, id: u64) -> Result<Device> {
        let core = host.open_devices.lock().get(&id).and_then(Weak::upgrade);
        core.map(Device::from_core).ok_or_else(|| {
            Error::new(ErrorCode::InvalidDevice, "the device of this memory was closed")
        })
    }

    /// Returns the open devices of a host, each of which stays open while it is looked at.
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

    /// Returns the plugin's device, which closing leaves alone until the answer is dropped.
    ///
    /// # Errors
    /// `Uninitialized` if it was closed.
    pub(crate) fn remote(&self) -> Result<DeviceGuard<'_>> {
        self.core.remote()
    }

    /// Returns the error for a device that is not open any more.
    #[cold]
    pub(crate) fn closed(&self) -> Error {
        self.core.closed()
    }

    /// # Errors
    /// `InvalidDevice` if they are not the same.
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
        // SAFETY: taken here once; nobody looks at a dropped handle.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        let Some(last) = Arc::into_inner(core) else {
            return;
        };
        if !last.remote.is_closed() && host_function::is_inside(last.id) {
            host_function::do_elsewhere("dropping a device", move || drop(last));
        }
    }
}
