//! Ranges of memory, and positions in them.

use ash::vk;
use gpu_allocator::vulkan::Allocation;
use longshore_plugin_api::MemoryKind;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of memory that the device accesses, and the host if it is mapped.
pub(crate) struct Region {
    /// Unique number among all regions of the process.
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    /// The address for the program.
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Number of bytes that the program sees.
    pub(super) logical_size: AtomicU64,
    pub(crate) device_address: u64,
    pub(crate) buffer: vk::Buffer,
    /// Offset of the region in the buffer.
    pub(crate) offset: u64,
    /// Host address, 0 if the region is not mapped.
    pub(super) host: u64,
    /// Whether the host reads the region as fast as its own memory.
    pub(super) cached: bool,
    pub(super) backing: Mutex<Backing>,
}

/// The owner of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An allocation of the program.
    Program(MemoryKind),
    /// Pinned memory of the program.
    Pinned,
    /// The backend itself.
    Internal,
}

pub(super) enum Backing {
    Allocated(Allocation),
    Imported(vk::DeviceMemory),
    Gone,
}

/// The position of an address in a region.
#[derive(Clone)]
pub(crate) struct RegionPosition {
    pub(crate) region: Arc<Region>,
    pub(crate) offset: u64,
}

impl RegionPosition {
    /// Returns the position `bytes` bytes further on.
    pub(crate) fn further(&self, bytes: u64) -> RegionPosition {
        RegionPosition { region: Arc::clone(&self.region), offset: self.offset + bytes }
    }

    /// Returns the offset in the region's buffer.
    pub(crate) fn buffer_offset(&self) -> u64 {
        self.region.offset + self.offset
    }

    /// Returns the number of bytes that the program sees from here to the region's end.
    pub(crate) fn rest(&self) -> u64 {
        self.region.logical_size.load(Ordering::Relaxed).saturating_sub(self.offset)
    }

    /// Returns the host address, if the host accesses it as fast as its own memory.
    pub(crate) fn host(&self) -> Option<u64> {
        (self.region.host != 0 && self.region.cached).then(|| self.region.host + self.offset)
    }
}

impl Region {
    /// Returns the mapping of a region that was allocated as mapped.
    pub(crate) fn mapped(&self) -> *mut u8 {
        self.host as *mut u8
    }
}
