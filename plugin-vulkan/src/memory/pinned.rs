//! Host memory of the program that the device accesses, by VK_EXT_external_memory_host.

use super::region::{Backing, Owner, Region};
use super::{Memory, create_buffer, next_id, overlapping, taken};
use ash::vk;
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result, Span};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl Memory {
    /// Imports the pages of a range and returns the device address of its start.
    ///
    /// # Errors
    /// `Unsupported` without VK_EXT_external_memory_host. `InvalidArgument` for a range that is
    /// empty, wraps around, overlaps a pinned range or an allocation of the device, or cannot be
    /// imported.
    pub(crate) fn pin(&self, range: Span) -> Result<u64> {
        let device = &self.device;
        let (Some(import), Some(page)) = (&self.import, device.physical.limits.import_alignment)
        else {
            let message = format!(
                "'{}' cannot pin host memory: it lacks VK_EXT_external_memory_host",
                device.physical.name
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        };
        let (start, bytes) = (range.address(), range.bytes());
        let wrong = |what: String| Error::new(ErrorCode::InvalidArgument, what);
        let end = start.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page));
        let end = end.filter(|_| start != 0 && bytes != 0);
        let end = end
            .ok_or_else(|| wrong(format!("{bytes} bytes at {start:#x} are no range of memory")))?;
        let (first, most) = (start / page * page, device.physical.limits.buffer_bytes);
        if end - first > most {
            return Err(wrong(format!(
                "pinning {bytes} bytes at {start:#x}, expected at most {most} bytes at a time"
            )));
        }
        let _pinning = self.pinning.lock();
        self.refuse_known(start, bytes)?;
        let (buffer, memory, device_address) = self.import(import, first, end - first)?;
        let region = Arc::new(Region {
            id: next_id(),
            owner: Owner::Pinned,
            address: device_address + (start - first),
            bytes,
            logical_size: AtomicU64::new(bytes),
            device_address: device_address + (start - first),
            buffer,
            offset: start - first,
            host: start,
            cached: true,
            backing: Mutex::new(Backing::Imported(memory)),
        });
        self.pinned.insert(start, Arc::clone(&region));
        self.live.insert(region.address, Arc::clone(&region));
        Ok(region.address)
    }

    /// Imports host pages as an allocation of the program, at their own address.
    ///
    /// # Errors
    /// The errors of [`Memory::pin`]; `Unsupported` for memory that is neither host nor managed
    /// memory.
    pub(crate) fn import_memory(&self, kind: MemoryKind, memory: Span) -> Result<()> {
        let device = &self.device;
        let unsupported = |why: &str| {
            let message =
                format!("'{}' cannot import memory of the host: {why}", device.physical.name);
            Error::new(ErrorCode::Unsupported, message)
        };
        if kind == MemoryKind::Device {
            return Err(unsupported(
                "device memory cannot be imported, expected host or managed memory",
            ));
        }
        let (Some(import), Some(page)) = (&self.import, device.physical.limits.import_alignment)
        else {
            return Err(unsupported("it lacks VK_EXT_external_memory_host"));
        };
        let (address, bytes) = (memory.address(), memory.bytes());
        if !address.is_multiple_of(page) {
            return Err(unsupported(&format!("it takes multiples of {page} bytes")));
        }
        let limits = &device.physical.limits;
        let whole = bytes.checked_next_multiple_of(page);
        let whole =
            whole.filter(|whole| *whole <= limits.buffer_bytes.min(limits.host_allocation_bytes));
        let whole = whole.ok_or_else(|| super::too_large(bytes, limits.host_allocation_bytes))?;
        let _pinning = self.pinning.lock();
        self.refuse_known(address, bytes)?;
        let (buffer, backing, device_address) = self.import(import, address, whole)?;
        let region = Arc::new(Region {
            id: next_id(),
            owner: Owner::Program(kind),
            address,
            bytes,
            logical_size: AtomicU64::new(bytes),
            device_address,
            buffer,
            offset: 0,
            host: address,
            cached: true,
            backing: Mutex::new(Backing::Imported(backing)),
        });
        if !taken::claim(&region) {
            self.release(&region);
            let message = format!("{address:#x} is the address of an allocation of another device");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        self.publish(&region);
        Ok(())
    }

    /// Undoes [`Memory::pin`], by the host address or by the returned address.
    ///
    /// # Errors
    /// `InvalidArgument` if no range is pinned at `address`.
    pub(crate) fn unpin(&self, address: u64) -> Result<()> {
        let _pinning = self.pinning.lock();
        let of_device =
            self.live.get(&address).filter(|entry| entry.value().owner == Owner::Pinned);
        let start = of_device.map_or(address, |entry| entry.value().host);
        let removed = self.pinned.get(&start).filter(|entry| entry.remove());
        let Some(entry) = removed else {
            let message = format!("nothing is pinned at {address:#x}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        };
        self.live.remove(&entry.value().address);
        self.release(entry.value());
        Ok(())
    }

    /// Refuses a range of host memory that overlaps the device's pinned ranges or allocations.
    fn refuse_known(&self, start: u64, bytes: u64) -> Result<()> {
        let pinned = overlapping(&self.pinned, start, bytes, |region| region.host);
        let own = overlapping(&self.live, start, bytes, |region| region.address)
            .filter(|region| region.host == region.address);
        if let Some(other) = pinned.or(own) {
            let what = match other.owner {
                Owner::Pinned => "is pinned",
                Owner::Program(_) | Owner::Internal => "the device has allocated",
            };
            let (at, end) = (other.host, other.host + other.bytes);
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                format!(
                    "{start:#x}..{:#x} overlaps {at:#x}..{end:#x}, which {what}",
                    start + bytes
                ),
            ));
        }
        Ok(())
    }

    /// Creates a buffer over host pages; returns buffer, memory and address.
    fn import(
        &self,
        functions: &ash::ext::external_memory_host::Device,
        start: u64,
        bytes: u64,
    ) -> Result<(vk::Buffer, vk::DeviceMemory, u64)> {
        const KIND: vk::ExternalMemoryHandleTypeFlags =
            vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let device = &*self.device;
        let refuse = |result| {
            let doing = format!("pinning {bytes} bytes at {start:#x}");
            if result != vk::Result::ERROR_INVALID_EXTERNAL_HANDLE {
                return device.check::<()>(&doing, Err(result)).expect_err("it is an error");
            }
            let what = format!("{doing}: the device cannot import this memory");
            Error::new(ErrorCode::InvalidArgument, what)
                .with_vendor(format!("VK_{result:?}"), i64::from(result.as_raw()))
        };
        let pages = start as *mut std::ffi::c_void;
        let mut usable = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the caller of `pin` vouches for the range, and its pages exist with it.
        let answered = unsafe {
            let ask = functions.fp().get_memory_host_pointer_properties_ext;
            ask(device.raw.handle(), KIND, pages, &mut usable)
        };
        answered.result().map_err(refuse)?;
        let buffer = create_buffer(device, bytes, Some(KIND))?;
        // SAFETY: the buffer is live.
        let requirements = unsafe { device.raw.get_buffer_memory_requirements(buffer) };
        let types = usable.memory_type_bits & requirements.memory_type_bits;
        let imported = || {
            if requirements.size > bytes {
                return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
            }
            let kind = coherent_type(&device.physical.memory, types)
                .ok_or(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE)?;
            let mut import =
                vk::ImportMemoryHostPointerInfoEXT::default().handle_type(KIND).host_pointer(pages);
            let mut flags = vk::MemoryAllocateFlagsInfo::default()
                .flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(bytes)
                .memory_type_index(kind)
                .push_next(&mut import)
                .push_next(&mut flags);
            // SAFETY: the pages stay in place until they are unpinned, as the caller of `pin`
            // vouches; the memory is bound to a buffer of its size and kind.
            unsafe {
                let memory = device.raw.allocate_memory(&info, None)?;
                let bound = device.raw.bind_buffer_memory(buffer, memory, 0);
                bound.inspect_err(|_| device.raw.free_memory(memory, None))?;
                let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
                Ok((memory, device.raw.get_buffer_device_address(&info)))
            }
        };
        let (memory, address) = imported().map_err(|result| {
            // SAFETY: the buffer belongs to this function and is unused.
            unsafe { device.raw.destroy_buffer(buffer, None) };
            refuse(result)
        })?;
        device.name(buffer, &format!("{bytes} pinned bytes at {start:#x}"));
        Ok((buffer, memory, address))
    }
}

/// Returns a coherent memory type among `types`, preferably one that the host caches.
fn coherent_type(memory: &vk::PhysicalDeviceMemoryProperties, types: u32) -> Option<u32> {
    use vk::MemoryPropertyFlags as Flags;
    let coherent = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    let with = |wanted: Flags| {
        let mut kinds = (0u32..).zip(memory.memory_types_as_slice());
        let found = |(index, kind): &(u32, &vk::MemoryType)| {
            types & (1 << index) != 0 && kind.property_flags.contains(wanted)
        };
        kinds.find(found).map(|(index, _)| index)
    };
    with(coherent | Flags::HOST_CACHED).or_else(|| with(coherent))
}
