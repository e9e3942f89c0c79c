//! Ranges of memory, and places in them.

use ash::vk;
use gpu_allocator::vulkan::Allocation;
use longshore_plugin_api::MemoryKind;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of memory that the device and, where it is mapped, the host reach.
pub(crate) struct Region {
    /// Different for each region that ever was.
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    /// The address that the program knows.
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// How many of the bytes the program sees.
    pub(super) logical_size: AtomicU64,
    pub(crate) device_address: u64,
    pub(crate) buffer: vk::Buffer,
    /// Where the region begins in the buffer.
    pub(crate) offset: u64,
    /// Where the host reaches it, 0 if it does not.
    pub(super) host: u64,
    /// Whether the host reads it as fast as its own memory.
    pub(super) cached: bool,
    pub(super) backing: Mutex<Backing>,
}

/// Who a region was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An allocation of the program.
    Program(MemoryKind),
    /// Memory of the program that was pinned.
    Pinned,
    /// The backend itself.
    Internal,
}

pub(super) enum Backing {
    Allocated(Allocation),
    Imported(vk::DeviceMemory),
    Gone,
}

/// Where in a region an address lies.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) region: Arc<Region>,
    pub(crate) offset: u64,
}

impl Found {
    /// Returns the place `bytes` further on.
    pub(crate) fn further(&self, bytes: u64) -> Found {
        Found { region: Arc::clone(&self.region), offset: self.offset + bytes }
    }

    /// Position in the region's buffer.
    pub(crate) fn buffer_offset(&self) -> u64 {
        self.region.offset + self.offset
    }

    /// How many bytes the program sees from here to the region's end.
    pub(crate) fn rest(&self) -> u64 {
        self.region.logical_size.load(Ordering::Relaxed).saturating_sub(self.offset)
    }

    /// Where the host reaches it as fast as its own memory, if it does.
    pub(crate) fn host(&self) -> Option<u64> {
        (self.region.host != 0 && self.region.cached).then(|| self.region.host + self.offset)
    }
}

impl Region {
    /// Returns the mapping, for memory that was asked for as mapped.
    pub(crate) fn mapped(&self) -> *mut u8 {
        self.host as *mut u8
    }
}
