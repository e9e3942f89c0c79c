//! Devices.

use super::tables::Tables;
use super::{Remote, RemoteEvent, RemoteKernel, RemoteModule, RemoteQueue};
use super::{handed_out, lacks_table};
use crate::abi::DeviceHandle;
use crate::backend::{Acceptance, Device, ImageBytes, ImageEntry};
use crate::bounds;
use crate::error::Result;
use crate::raw::{bytes, collect, from_raw, text};
use crate::request::{MemoryKind, Span};

/// An open device of a plugin. Dropping it closes it.
pub struct RemoteDevice {
    handle: *mut DeviceHandle,
    tables: Tables,
}

// SAFETY: the interface promises that a device may be used from any thread.
unsafe impl Send for RemoteDevice {}
// SAFETY: as above.
unsafe impl Sync for RemoteDevice {}

impl RemoteDevice {
    pub(super) fn new(handle: *mut DeviceHandle, tables: Tables) -> RemoteDevice {
        RemoteDevice { handle, tables }
    }

    /// The name of the plugin, for errors.
    pub fn plugin(&self) -> &str {
        &self.tables.plugin
    }

    pub(super) fn handle(&self) -> *mut DeviceHandle {
        self.handle
    }

    /// Frees an allocation that cannot be used.
    #[cold]
    fn give_back(&self, kind: MemoryKind, address: u64) {
        if let Err(error) = self.free(kind, address) {
            log::warn!("freeing memory at {address:#x}: {error}");
        }
    }

    /// Closes it, the first time.
    fn close_handle(&mut self) -> Result<()> {
        let handle = std::mem::replace(&mut self.handle, std::ptr::null_mut());
        if handle.is_null() {
            return Ok(());
        }
        // SAFETY: a live device, used no more.
        unsafe { from_raw((self.tables.device.close)(handle)) }
    }
}

impl Device<Remote> for RemoteDevice {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        let (mut accepted, mut result) = (0, Ok(()));
        let reason = collect(bounds::REASON_BYTES, |sink| {
            let ask = self.tables.device.accepts;
            // SAFETY: a live device, a readable image, a place to write to, this call's sink.
            result = unsafe { from_raw(ask(self.handle, bytes(image), &mut accepted, sink)) };
        });
        result?;
        let place = "longshore.device, accepts";
        Ok(match accepted {
            0 => {
                let place = format_args!("{place}, reason");
                Acceptance::Refused(reason.text_of_plugin(&self.tables.plugin, place)?)
            }
            1 => Acceptance::Accepted,
            2 => Acceptance::Verified,
            other => return Err(bounds::breach(&self.tables.plugin, place, other, "0, 1 or 2")),
        })
    }

    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        let mut address = 0;
        let allocate = self.tables.device.allocate;
        // SAFETY: a live device and a place to write to.
        unsafe {
            from_raw(allocate(self.handle, kind as u32, bytes, alignment, &mut address))?;
        }
        let place = "longshore.device, allocate";
        let checked = bounds::allocation(&self.tables.plugin, place, address, bytes, alignment);
        checked.map(|()| address).inspect_err(|_| {
            if address != 0 {
                self.give_back(kind, address);
            }
        })
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        // SAFETY: a live device.
        unsafe { from_raw((self.tables.device.free)(self.handle, kind as u32, address)) }
    }

    fn load(&self, image: ImageBytes) -> Result<RemoteModule> {
        let mut module = std::ptr::null_mut();
        // SAFETY: a live device, image bytes that stay as `ImageBytes` promises, and a place to
        // write to.
        unsafe {
            from_raw((self.tables.device.load)(self.handle, bytes(image.get()), &mut module))?;
        }
        Ok(RemoteModule::new(handed_out("module", module)?, self.tables.clone()))
    }

    /// A plugin without the table loads it at once: the program asked for less work now, not for another result.
    fn load_lazily(&self, image: ImageBytes) -> Result<RemoteModule> {
        let Some(table) = self.tables.lazy else {
            log::debug!("the plugin has no table \"longshore.lazy\": an image is loaded whole");
            return self.load(image);
        };
        let mut module = std::ptr::null_mut();
        // SAFETY: as for `load`.
        unsafe { from_raw((table.load)(self.handle, bytes(image.get()), &mut module))? };
        Ok(RemoteModule::new(handed_out("module", module)?, self.tables.clone()))
    }

    fn create_queue(&self) -> Result<RemoteQueue> {
        let mut queue = std::ptr::null_mut();
        // SAFETY: a live device and a place to write to.
        unsafe { from_raw((self.tables.device.create_queue)(self.handle, &mut queue))? };
        Ok(RemoteQueue::new(handed_out("queue", queue)?, &self.tables))
    }

    fn create_event(&self, timing: bool) -> Result<RemoteEvent> {
        let mut event = std::ptr::null_mut();
        let create = self.tables.device.create_event;
        // SAFETY: a live device and a place to write to.
        unsafe { from_raw(create(self.handle, u32::from(timing), &mut event))? };
        Ok(RemoteEvent::new(handed_out("event", event)?, self.tables.event))
    }

    fn close(mut self) -> Result<()> {
        self.close_handle()
    }

    fn pin(&self, range: Span) -> Result<u64> {
        let table = self.tables.pinning.ok_or_else(|| lacks_table("pinning"))?;
        let mut address = 0;
        // SAFETY: a live device, a range that its maker vouches for, a place to write to.
        unsafe {
            from_raw((table.pin)(self.handle, range.address(), range.bytes(), &mut address))?;
        }
        let place = "longshore.pinning, pin";
        bounds::allocation(&self.tables.plugin, place, address, range.bytes(), 0).map(|()| address)
    }

    fn unpin(&self, address: u64) -> Result<()> {
        let table = self.tables.pinning.ok_or_else(|| lacks_table("pinning"))?;
        // SAFETY: a live device.
        unsafe { from_raw((table.unpin)(self.handle, address)) }
    }

    fn can_access(&self, peer: &RemoteDevice) -> Result<bool> {
        let table = self.tables.peer.ok_or_else(|| lacks_table("peer"))?;
        let mut access = 0;
        // SAFETY: two live devices and a place to write to.
        unsafe { from_raw((table.can_access)(self.handle, peer.handle, &mut access))? };
        Ok(access != 0)
    }

    fn enable_access(&self, peer: &RemoteDevice) -> Result<()> {
        let table = self.tables.peer.ok_or_else(|| lacks_table("peer"))?;
        // SAFETY: two live devices.
        unsafe { from_raw((table.enable)(self.handle, peer.handle)) }
    }

    fn optimal_group_items(&self, kernel: &RemoteKernel, shared: u64) -> Result<u32> {
        let table = self.tables.occupancy.ok_or_else(|| lacks_table("occupancy"))?;
        let mut items = 0;
        let ask = table.optimal_group_items;
        // SAFETY: a live device, a kernel of a loaded module, a place to write to.
        unsafe { from_raw(ask(self.handle, kernel.handle(), shared, &mut items))? };
        bounds::group_items(&self.tables.plugin, items).map(|()| items)
    }

    fn max_cooperative_groups(
        &self,
        kernel: &RemoteKernel,
        items: [u32; 3],
        shared: u64,
    ) -> Result<u32> {
        let table = self.tables.occupancy.ok_or_else(|| lacks_table("occupancy"))?;
        let mut groups = 0;
        let ask = table.max_cooperative_groups;
        // SAFETY: a live device, a kernel of a loaded module, places to read and to write.
        unsafe { from_raw(ask(self.handle, kernel.handle(), &items, shared, &mut groups))? };
        Ok(groups)
    }

    fn rank(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        let table = self.tables.selection.ok_or_else(|| lacks_table("selection"))?;
        let (triple, arch, mut rank) = (text(entry.triple), text(entry.arch), 0);
        // SAFETY: a live device, a readable image, readable strings, a place to write to.
        unsafe {
            from_raw((table.rank)(self.handle, bytes(entry.bytes), triple, arch, &mut rank))?;
        }
        Ok(rank)
    }

    fn set_extent(&self, address: u64, bytes: u64) -> Result<()> {
        let table = self.tables.extent.ok_or_else(|| lacks_table("extent"))?;
        // SAFETY: a live device.
        unsafe { from_raw((table.set_extent)(self.handle, address, bytes)) }
    }

    fn adopt(&self, kind: MemoryKind, memory: Span) -> Result<()> {
        let table = self.tables.adoption.ok_or_else(|| lacks_table("adoption"))?;
        let (address, bytes) = (memory.address(), memory.bytes());
        // SAFETY: a live device, memory that its maker vouches for.
        unsafe { from_raw((table.adopt)(self.handle, kind as u32, address, bytes)) }
    }
}

impl Drop for RemoteDevice {
    fn drop(&mut self) {
        if let Err(error) = self.close_handle() {
            log::warn!("closing a device: {error}");
        }
    }
}
