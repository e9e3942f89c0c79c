//! The memory of a device that programs have allocated by `omp_target_alloc` and its relatives.

use longshore::{Allocation, Device, MemoryKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Alignment of allocations, in bytes.
const ALIGNMENT: u64 = 256;

/// The live allocations of a device, by their first addresses. Any thread may call the methods.
#[derive(Default)]
pub(crate) struct Allocations {
    live: Mutex<BTreeMap<u64, Allocation>>,
}

impl Allocations {
    /// Allocates memory and returns its first address. May block.
    ///
    /// # Errors
    /// Errors of [`Device::allocate`].
    pub(crate) fn allocate(&self, device: &Device, kind: MemoryKind, bytes: u64) -> Result<u64> {
        let allocation = device.allocate(kind, bytes, ALIGNMENT)?;
        let address = allocation.pointer().address();
        self.live.lock().insert(address, allocation);
        Ok(address)
    }

    /// Frees the allocation that begins at an address. Returns whether there was one. Queued work
    /// may still use the memory.
    pub(crate) fn free(&self, address: u64) -> bool {
        // The lock is released before the memory is.
        let freed = self.live.lock().remove(&address);
        freed.is_some()
    }

    /// Returns the kind of the allocation that contains a range.
    pub(crate) fn kind_of(&self, begin: u64, bytes: u64) -> Option<MemoryKind> {
        let live = self.live.lock();
        let (first, allocation) = live.range(..=begin).next_back()?;
        let end = begin.checked_add(bytes)?;
        (end <= first + allocation.bytes() && begin < first + allocation.bytes())
            .then(|| allocation.kind())
    }
}
