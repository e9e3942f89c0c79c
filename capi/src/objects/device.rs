//! Devices, which open at their first use.

use super::kind;
use super::registration::Registered;
use crate::registry::handle::{Kind, Object};
use crate::types::structures::ol_device_impl_t;
use longshore::{
    AllocationOwner, Device, DeviceEntry, DevicePointer, ErrorCode, Host, MemoryKind, Result,
};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// A device. Its handle has the number of the context as its generation.
pub(crate) struct DeviceObject {
    host: Arc<Host>,
    /// Index among the host's devices.
    place: usize,
    /// Index of the platform in the context.
    platform: usize,
    is_host: bool,
    shares_memory: bool,
    open: OnceLock<Device>,
    opening: Mutex<()>,
    /// Memory of the program that is registered for the device.
    pub(crate) registered: Mutex<Registered>,
}

impl Object for DeviceObject {
    type Pointee = ol_device_impl_t;
    const KIND: Kind = kind::DEVICE;
}

impl DeviceObject {
    /// Creates a device that is not open yet, by its index among the host's devices. `platform` is
    /// the index of its platform in the context; `is_host` is true for the platform of the CPU.
    pub(crate) fn new(
        host: &Arc<Host>,
        place: usize,
        platform: usize,
        is_host: bool,
    ) -> DeviceObject {
        DeviceObject {
            place,
            platform,
            is_host,
            // Kernels of any other device run outside of this process.
            shares_memory: is_host && !host.devices()[place].is_isolated(),
            open: OnceLock::new(),
            opening: Mutex::new(()),
            registered: Mutex::default(),
            host: Arc::clone(host),
        }
    }

    /// Returns the open device. Blocks while the first call opens it.
    ///
    /// # Errors
    /// Errors of opening the device.
    #[inline]
    pub(crate) fn get(&self) -> Result<&Device> {
        match self.open.get() {
            Some(device) => Ok(device),
            None => self.open(),
        }
    }

    /// Returns whether the device is open under this number of the host.
    pub(crate) fn is_open_as(&self, id: u64) -> bool {
        self.open.get().is_some_and(|open| open.id() == id)
    }

    /// Returns the host's entry of the device, with properties of a device that need not be open.
    #[inline]
    pub(crate) fn entry(&self) -> &DeviceEntry {
        &self.host.devices()[self.place]
    }

    /// Returns the index of the platform in the context.
    #[inline]
    pub(crate) fn platform(&self) -> usize {
        self.platform
    }

    /// Returns whether the device is the CPU, in this process or in another one. Callers pass the
    /// CPU for memory of the program.
    #[inline]
    pub(crate) fn is_host(&self) -> bool {
        self.is_host
    }

    /// Returns whether the device and the program share all memory.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.shares_memory
    }

    /// Returns whether an address that a caller passes with this device is memory of the program.
    /// For the CPU in another process, the table of allocations decides.
    #[inline]
    pub(crate) fn is_of_program(&self, address: *const c_void) -> bool {
        self.shares_memory || self.is_host && !self.is_on_device(address)
    }

    /// Closes the device, if it was opened. Blocks. At the end of the process the driver may have
    /// ended before, and with it the device.
    ///
    /// # Errors
    /// Errors of [`Device::close`].
    pub(crate) fn close(&self) -> Result<()> {
        let Some(device) = self.open.get() else { return Ok(()) };
        match device.clone().close() {
            Err(error) if error.code() == ErrorCode::Uninitialized => {
                log::debug!("{error}");
                Ok(())
            }
            closed => closed.map(drop),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Device> {
        let _opening = self.opening.lock();
        if self.open.get().is_none() {
            let _ = self.open.set(self.entry().open()?);
        }
        Ok(self.open.get().expect("it was just set"))
    }

    /// Returns whether an address is in an allocation or a variable out of the program's reach.
    fn is_on_device(&self, address: *const c_void) -> bool {
        let found = self.host.allocation_at(DevicePointer(address as u64));
        found.is_ok_and(|found| match found.owner {
            AllocationOwner::Allocation { kind, .. } => kind == MemoryKind::Device,
            _ => true,
        })
    }
}
