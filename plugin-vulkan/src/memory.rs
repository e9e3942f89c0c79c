//! Memory: buffers with device addresses, and host memory that the device reaches.

mod pinned;
mod region;
mod taken;

pub(crate) use region::{Owner, Region, RegionPosition};

use crate::error;
use crate::logical::LogicalDevice;
use crate::physical::managed_type;
use ash::vk;
use crossbeam_skiplist::SkipMap;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{
    Allocation, AllocationCreateDesc, AllocationScheme, Allocator, AllocatorCreateDesc,
};
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result};
use parking_lot::Mutex;
use region::Backing;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Greatest alignment of an allocation.
const GREATEST_ALIGNMENT: u64 = 1 << 30;
/// Most moves of an allocation away from addresses that another device has.
const MOST_MOVES: usize = 16;

/// The memory of a device. The lookup of an address takes no lock.
pub(crate) struct Memory {
    device: Arc<LogicalDevice>,
    /// `None` once the device is being destroyed.
    allocator: Mutex<Option<Allocator>>,
    /// Allocations, by the address that the program knows.
    live: SkipMap<u64, Arc<Region>>,
    /// Pinned ranges, by their host address.
    pinned: SkipMap<u64, Arc<Region>>,
    /// The lock of pinning and unpinning.
    pinning: Mutex<()>,
    /// Number of regions whose device address differs from the program's address.
    translated: AtomicUsize,
    import: Option<ash::ext::external_memory_host::Device>,
}

impl Memory {
    /// Creates the memory of a device, without allocations.
    ///
    /// # Errors
    /// The allocator's errors.
    pub(crate) fn new(device: &Arc<LogicalDevice>) -> Result<Memory> {
        let physical = &device.physical;
        let mut debug_settings = gpu_allocator::AllocatorDebugSettings::default();
        debug_settings.log_leaks_on_shutdown = false;
        let description = AllocatorCreateDesc {
            instance: physical.instance.raw.clone(),
            device: device.raw.clone(),
            physical_device: physical.raw,
            debug_settings,
            buffer_device_address: true,
            allocation_sizes: gpu_allocator::AllocationSizes::default(),
        };
        let allocator = Allocator::new(&description)
            .map_err(|error| error::allocator("making an allocator", &error))?;
        let import = physical.limits.import_alignment.map(|_| {
            ash::ext::external_memory_host::Device::new(&physical.instance.raw, &device.raw)
        });
        Ok(Memory {
            device: Arc::clone(device),
            allocator: Mutex::new(Some(allocator)),
            live: SkipMap::new(),
            pinned: SkipMap::new(),
            pinning: Mutex::new(()),
            translated: AtomicUsize::new(0),
            import,
        })
    }

    /// Allocates for the program and returns the address.
    ///
    /// # Errors
    /// `OutOfResources`, or `Unsupported` for managed memory that the device lacks and for
    /// alignments above 1 GiB.
    pub(crate) fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        let location = match kind {
            MemoryKind::Host => MemoryLocation::GpuToCpu,
            MemoryKind::Device => MemoryLocation::GpuOnly,
            MemoryKind::Managed if managed_type(&self.device.physical.memory).is_none() => {
                return Err(no_managed(&self.device.physical.name));
            }
            MemoryKind::Managed => MemoryLocation::CpuToGpu,
            kind => return Err(kind.unsupported_by(&self.device.physical.name)),
        };
        let mut moved = Vec::new();
        let region = loop {
            let owner = Owner::Program(kind);
            let region = self.region(owner, location, bytes, alignment);
            match region.map(Arc::new) {
                Ok(region) if taken::claim(&region) => break Ok(region),
                // The region is kept until another is found, so that the allocator does not return
                // it again.
                Ok(region) if moved.len() < MOST_MOVES => moved.push(region),
                Ok(region) => {
                    moved.push(region);
                    break Err(no_free_address(bytes));
                }
                Err(error) => break Err(error),
            }
        };
        for region in moved {
            self.release(&region);
        }
        let region = region?;
        self.publish(&region);
        Ok(region.address)
    }

    /// Frees an allocation of [`Memory::allocate`].
    ///
    /// # Errors
    /// `InvalidArgument` unless `address` is the start of a live allocation of this kind.
    pub(crate) fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        let found = self.live.get(&address);
        match found.as_ref().map(|entry| entry.value().owner) {
            Some(Owner::Program(found)) if found == kind => {}
            Some(Owner::Program(found)) => {
                let message =
                    format!("{address:#x} is an allocation of kind {found:?}, freed as {kind:?}");
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
            _ => return Err(not_live(address)),
        }
        // The thread that removes the entry frees the region.
        match found.filter(|entry| entry.remove()) {
            Some(entry) => {
                self.withdraw(entry.value());
                Ok(())
            }
            None => Err(not_live(address)),
        }
    }

    /// Sets the logical size of an allocation: the number of bytes that the program sees.
    ///
    /// # Errors
    /// `InvalidArgument` unless `address` is the start of a live allocation, `InvalidSize` for 0
    /// bytes or more than the allocation has.
    pub(crate) fn set_logical_size(&self, address: u64, bytes: u64) -> Result<()> {
        let found = self.live.get(&address);
        let region = found.as_ref().map(|entry| entry.value());
        match region.filter(|region| matches!(region.owner, Owner::Program(_))) {
            Some(region) if (1..=region.bytes).contains(&bytes) => {
                region.logical_size.store(bytes, Ordering::Relaxed);
                Ok(())
            }
            Some(region) => {
                let most = region.bytes;
                let message = format!("a logical size of {bytes} bytes, expected 1 to {most}");
                Err(Error::new(ErrorCode::InvalidSize, message))
            }
            None => Err(not_live(address)),
        }
    }

    /// Allocates memory for the backend's own use, mapped if `location` implies it. The caller must
    /// release it by [`Memory::release`].
    ///
    /// # Errors
    /// `OutOfResources`, and the driver's errors.
    pub(crate) fn internal(&self, location: MemoryLocation, bytes: u64) -> Result<Arc<Region>> {
        self.region(Owner::Internal, location, bytes, 16).map(Arc::new)
    }

    /// Allocates memory for the backend that [`Memory::find`] finds by its device address.
    pub(crate) fn internal_found(&self, bytes: u64) -> Result<Arc<Region>> {
        let region = self.internal(MemoryLocation::GpuOnly, bytes)?;
        if !taken::claim(&region) {
            self.release(&region);
            return Err(no_free_address(bytes));
        }
        self.publish(&region);
        Ok(region)
    }

    /// Removes a region that [`Memory::find`] finds, and releases its memory.
    pub(crate) fn withdraw(&self, region: &Region) {
        self.live.remove(&region.address);
        if region.device_address != region.address {
            self.translated.fetch_sub(1, Ordering::Relaxed);
        }
        taken::give_up(region);
        self.release(region);
    }

    /// Releases a region's memory. No work uses it any more.
    pub(crate) fn release(&self, region: &Region) {
        let backing = std::mem::replace(&mut *region.backing.lock(), Backing::Gone);
        // SAFETY: the buffer belongs to the region, and no work uses it any more; its memory is
        // freed after it.
        unsafe {
            match backing {
                Backing::Allocated(allocation) => {
                    self.device.raw.destroy_buffer(region.buffer, None);
                    self.free_allocation(allocation);
                }
                Backing::Imported(memory) => {
                    self.device.raw.destroy_buffer(region.buffer, None);
                    self.device.raw.free_memory(memory, None);
                }
                Backing::Gone => {}
            }
        }
    }

    /// Returns the region that contains an address of the device's memory.
    pub(crate) fn find(&self, address: u64) -> Option<RegionPosition> {
        within(&self.live, address, |region| region.address)
    }

    /// Returns the region that contains a host address.
    pub(crate) fn find_host(&self, address: u64) -> Option<RegionPosition> {
        let allocated =
            self.find(address).filter(|found| found.region.host == found.region.address);
        allocated.or_else(|| within(&self.pinned, address, |region| region.host))
    }

    /// Returns whether the device can access part of a range of host memory.
    pub(crate) fn knows_some(&self, start: u64, bytes: u64) -> bool {
        let own = overlapping(&self.live, start, bytes, |region| region.address);
        own.is_some_and(|region| region.host == region.address)
            || overlapping(&self.pinned, start, bytes, |region| region.host).is_some()
    }

    /// Returns the device address for an address of the program, which may be a host address of
    /// shared memory.
    pub(crate) fn translate(&self, address: u64) -> u64 {
        if self.translated.load(Ordering::Relaxed) == 0 {
            return address;
        }
        match self.find(address) {
            Some(found) => found.region.device_address + found.offset,
            None => address,
        }
    }

    fn publish(&self, region: &Arc<Region>) {
        if region.device_address != region.address {
            self.translated.fetch_add(1, Ordering::Relaxed);
        }
        self.live.insert(region.address, Arc::clone(region));
    }

    /// Creates a buffer with memory at a multiple of `alignment`.
    fn region(
        &self,
        owner: Owner,
        location: MemoryLocation,
        bytes: u64,
        alignment: u64,
    ) -> Result<Region> {
        if alignment > GREATEST_ALIGNMENT {
            let message = format!(
                "an allocation at a multiple of {alignment} bytes, expected at most \
                 {GREATEST_ALIGNMENT}"
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let region = self.region_of(owner, location, bytes, alignment, 0)?;
        if region.is_some() || alignment <= 1 {
            return Ok(region.expect("every address is a multiple of 1"));
        }
        // The driver aligns less: with additional bytes, a multiple lies in the buffer.
        let region = self.region_of(owner, location, bytes, alignment, alignment)?;
        Ok(region.expect("a multiple of the alignment lies within one more of it"))
    }

    /// Creates a buffer of `bytes` and `slack` more bytes; `None` if no multiple of `alignment`
    /// starts a range of `bytes` bytes in it.
    fn region_of(
        &self,
        owner: Owner,
        location: MemoryLocation,
        bytes: u64,
        alignment: u64,
        slack: u64,
    ) -> Result<Option<Region>> {
        let size = bytes.checked_add(slack).and_then(|size| size.checked_next_multiple_of(4));
        let limits = &self.device.physical.limits;
        let limit = match location {
            MemoryLocation::GpuToCpu => limits.host_allocation_bytes,
            _ => limits.allocation_bytes,
        };
        let size = size.filter(|size| *size <= limit).ok_or_else(|| too_large(bytes, limit))?;
        let doing = "allocating memory";
        let buffer = create_buffer(&self.device, size, None)?;
        // SAFETY: the buffer is live.
        let mut requirements = unsafe { self.device.raw.get_buffer_memory_requirements(buffer) };
        requirements.alignment = requirements.alignment.max(alignment.min(1 << 16));
        let allocation = self.allocate_for(buffer, &requirements, location, owner);
        let allocation = allocation.inspect_err(|_| {
            // SAFETY: the buffer belongs to this function and is unused.
            unsafe { self.device.raw.destroy_buffer(buffer, None) };
        })?;
        // SAFETY: buffer and memory are live, the memory fits the buffer's requirements.
        let bound = unsafe {
            self.device.raw.bind_buffer_memory(buffer, allocation.memory(), allocation.offset())
        };
        if let Err(result) = bound {
            // SAFETY: as above.
            unsafe { self.device.raw.destroy_buffer(buffer, None) };
            self.free_allocation(allocation);
            return Err(error::driver(doing, result));
        }
        // SAFETY: the buffer is bound and was made for it.
        let start = unsafe {
            let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
            self.device.raw.get_buffer_device_address(&info)
        };
        let host = allocation.mapped_ptr().map_or(0, |mapped| mapped.as_ptr() as u64);
        let flags = allocation.memory_properties();
        let of_host = matches!(owner, Owner::Program(MemoryKind::Host | MemoryKind::Managed));
        let base = if of_host { host } else { start };
        let offset = base.next_multiple_of(alignment) - base;
        let region = Region {
            id: next_id(),
            owner,
            address: base + offset,
            bytes,
            logical_size: AtomicU64::new(bytes),
            device_address: start + offset,
            buffer,
            offset,
            host: if host == 0 { 0 } else { host + offset },
            cached: flags.contains(
                vk::MemoryPropertyFlags::HOST_CACHED | vk::MemoryPropertyFlags::HOST_COHERENT,
            ),
            backing: Mutex::new(Backing::Allocated(allocation)),
        };
        if offset > slack || (of_host && host == 0) {
            self.release(&region);
            if offset > slack {
                return Ok(None);
            }
            return Err(Error::new(ErrorCode::BackendFailure, "host memory is not mapped"));
        }
        self.device.name(buffer, &format!("{owner:?} of {bytes} bytes at {:#x}", region.address));
        Ok(Some(region))
    }

    /// Allocates memory for a buffer. Without enough memory for a new block of the allocator,
    /// allocates just enough for the buffer.
    fn allocate_for(
        &self,
        buffer: vk::Buffer,
        requirements: &vk::MemoryRequirements,
        location: MemoryLocation,
        owner: Owner,
    ) -> Result<Allocation> {
        let mut allocator = self.allocator.lock();
        let allocator = allocator.as_mut().expect("the device is not being destroyed");
        let mut ask = |allocation_scheme| {
            allocator.allocate(&AllocationCreateDesc {
                name: match owner {
                    Owner::Program(_) => "allocation of the program",
                    Owner::Pinned | Owner::Internal => "of the backend",
                },
                requirements: *requirements,
                location,
                linear: true,
                allocation_scheme,
            })
        };
        let shared = ask(AllocationScheme::GpuAllocatorManaged);
        let allocation = shared.or_else(|_| ask(AllocationScheme::DedicatedBuffer(buffer)));
        allocation.map_err(|error| {
            error::allocator(&format!("allocating {} bytes", requirements.size), &error)
        })
    }

    fn free_allocation(&self, allocation: Allocation) {
        if let Some(allocator) = self.allocator.lock().as_mut()
            && let Err(error) = allocator.free(allocation)
        {
            log::error!("freeing memory: {error}");
        }
    }
}

impl Drop for Memory {
    /// Releases all remaining memory: every submitter of work held the device, so no work uses it.
    fn drop(&mut self) {
        for entry in self.live.iter() {
            if entry.value().owner != Owner::Pinned {
                taken::give_up(entry.value());
            }
            self.release(entry.value());
        }
        for entry in self.pinned.iter() {
            self.release(entry.value());
        }
        drop(self.allocator.lock().take());
    }
}

/// Creates a buffer for all uses by kernels and copies.
fn create_buffer(
    device: &LogicalDevice,
    bytes: u64,
    external: Option<vk::ExternalMemoryHandleTypeFlags>,
) -> Result<vk::Buffer> {
    use vk::BufferUsageFlags as Usage;
    let families = &device.physical.families;
    let both = [families.compute, families.transfer.unwrap_or(families.compute)];
    let mut kind = vk::ExternalMemoryBufferCreateInfo::default();
    let mut info = vk::BufferCreateInfo::default().size(bytes).usage(
        Usage::STORAGE_BUFFER
            | Usage::UNIFORM_BUFFER
            | Usage::TRANSFER_SRC
            | Usage::TRANSFER_DST
            | Usage::SHADER_DEVICE_ADDRESS,
    );
    if both[0] != both[1] {
        info = info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&both);
    }
    if let Some(external) = external {
        kind = kind.handle_types(external);
        info = info.push_next(&mut kind);
    }
    // SAFETY: the device is live; the size is at least 1 and within its limits.
    let buffer = unsafe { device.raw.create_buffer(&info, None) };
    device.check("making a buffer", buffer)
}

fn within(
    map: &SkipMap<u64, Arc<Region>>,
    address: u64,
    start: impl Fn(&Region) -> u64,
) -> Option<RegionPosition> {
    let entry = map.upper_bound(Bound::Included(&address))?;
    let region = entry.value();
    let offset = address - start(region);
    (offset < region.bytes).then(|| RegionPosition { region: Arc::clone(region), offset })
}

/// Returns the last region of a map that overlaps a range.
fn overlapping(
    map: &SkipMap<u64, Arc<Region>>,
    start: u64,
    bytes: u64,
    start_of: impl Fn(&Region) -> u64,
) -> Option<Arc<Region>> {
    let before = map.upper_bound(Bound::Excluded(&start.saturating_add(bytes)))?;
    let region = before.value();
    (start_of(region).saturating_add(region.bytes) > start).then(|| Arc::clone(region))
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cold]
fn not_live(address: u64) -> Error {
    let message = format!("{address:#x} is not the address of a live allocation");
    Error::new(ErrorCode::InvalidArgument, message)
}

#[cold]
fn no_managed(device: &str) -> Error {
    let message = format!(
        "'{device}' has no managed memory: none of its memory types is both its own and reached \
         by the host"
    );
    Error::new(ErrorCode::Unsupported, message)
}

#[cold]
fn too_large(bytes: u64, limit: u64) -> Error {
    let message = format!("an allocation of {bytes} bytes, expected at most {limit}");
    Error::new(ErrorCode::OutOfResources, message)
}

#[cold]
fn no_free_address(bytes: u64) -> Error {
    let message = format!(
        "an allocation of {bytes} bytes: the driver offers only addresses of live \
         allocations on other devices"
    );
    Error::new(ErrorCode::OutOfResources, message)
}
