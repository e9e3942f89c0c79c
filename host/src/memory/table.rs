//! The table of all memory that a host's devices have allocated.

use super::block::{Block, Use};
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

/// The owners of all allocated addresses, looked up in O(log n) time. Cached blocks stay in the
/// table, so reusing a block does not change the table.
#[derive(Default)]
pub(crate) struct AllocationTable {
    ranges: RwLock<BTreeMap<u64, Range>>,
}

enum Range {
    Block(Arc<Block>),
    Global { device: u64, program: u64, bytes: u64 },
}

/// The allocation or global that contains an address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocationInfo {
    /// First address.
    pub base: u64,
    /// Requested size in bytes.
    pub bytes: u64,
    /// Owner of the memory: an allocation or a global.
    pub owner: AllocationOwner,
    /// Number of the device, see [`Device::id`](crate::Device::id).
    pub device: u64,
}

/// The owner of a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationOwner {
    /// An allocation of the program.
    Allocation {
        /// Kind of the memory.
        kind: MemoryKind,
        /// Source location of the allocating call.
        location: &'static Location<'static>,
    },
    /// A global variable of a loaded image.
    Global,
}

impl AllocationTable {
    /// Inserts a block that a plugin has allocated.
    ///
    /// # Errors
    /// An entered block, live or cached, that the new block overlaps; the new block is then not
    /// inserted.
    pub(crate) fn insert(&self, block: &Arc<Block>) -> Result<(), Arc<Block>> {
        let mut ranges = self.ranges.write();
        // No two entered blocks overlap, so only the last one that begins before the end can
        // overlap this one.
        let closest = ranges.range(..=block.last()).rev().find_map(|(_, range)| match range {
            Range::Block(known) => Some(known),
            Range::Global { .. } => None,
        });
        if let Some(known) = closest.filter(|known| known.overlaps(block)) {
            return Err(Arc::clone(known));
        }
        ranges.insert(block.address, Range::Block(Arc::clone(block)));
        Ok(())
    }

    pub(crate) fn remove(&self, address: u64) {
        self.ranges.write().remove(&address);
    }

    /// Inserts a global; inserting one again has no effect. A block at the same address keeps its
    /// entry. Among several globals at one address the longest is kept, and empty globals are
    /// skipped.
    pub(crate) fn insert_global(&self, device: u64, program: u64, address: u64, bytes: u64) {
        let mut ranges = self.ranges.write();
        let longer = match ranges.get(&address) {
            None => bytes > 0,
            Some(Range::Global { bytes: known, .. }) => bytes > *known,
            Some(Range::Block(_)) => false,
        };
        if longer {
            ranges.insert(address, Range::Global { device, program, bytes });
        }
    }

    pub(crate) fn remove_globals_of(&self, program: u64) {
        let is_removed =
            |range: &Range| matches!(range, Range::Global { program: p, .. } if *p == program);
        self.ranges.write().retain(|_, range| !is_removed(range));
    }

    /// Removes all ranges of a device, and returns its blocks, live and cached.
    pub(crate) fn remove_device(&self, device: u64) -> Vec<Arc<Block>> {
        let mut removed = Vec::new();
        self.ranges.write().retain(|_, range| match range {
            Range::Block(block) if block.device == device => {
                removed.push(Arc::clone(block));
                false
            }
            Range::Global { device: owner, .. } => *owner != device,
            Range::Block(_) => true,
        });
        removed
    }

    /// Returns the live allocations of one device, or of all devices.
    pub(crate) fn live(&self, device: Option<u64>) -> Vec<(MemoryKind, Use)> {
        let ranges = self.ranges.read();
        let live = ranges.values().filter_map(|range| match range {
            Range::Block(block) if block.is_live() => Some(block),
            _ => None,
        });
        live.filter(|block| device.is_none_or(|device| block.device == device))
            .map(|block| (block.kind, block.current_use()))
            .collect()
    }

    /// Returns the live allocation or global that contains an address.
    pub(crate) fn find(&self, address: u64) -> Option<AllocationInfo> {
        let ranges = self.ranges.read();
        let (base, range) = ranges.range(..=address).next_back()?;
        let info = range.info(*base)?;
        (address - info.base < info.bytes).then_some(info)
    }

    /// Returns the live block that starts at an address.
    pub(crate) fn block_at(&self, address: u64) -> Option<Arc<Block>> {
        match self.ranges.read().get(&address) {
            Some(Range::Block(block)) if block.is_live() => Some(Arc::clone(block)),
            _ => None,
        }
    }

    /// Returns the device whose allocation or global contains all of a range.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` is in no live allocation, `InvalidSize` if the range exceeds
    /// the allocation.
    pub(crate) fn device_of(&self, address: u64, bytes: u64) -> Result<u64> {
        let Some(info) = self.find(address) else {
            return Err(self.not_live(address));
        };
        let left = info.bytes - (address - info.base);
        if bytes <= left {
            return Ok(info.device);
        }
        let message = format!(
            "{bytes} bytes at {address:#x} exceed the allocation of {} bytes at {:#x}",
            info.bytes, info.base
        );
        Err(Error::new(ErrorCode::InvalidSize, message))
    }

    /// Returns the error for an address that is not live. The message distinguishes freed memory.
    pub(crate) fn not_live(&self, address: u64) -> Error {
        let ranges = self.ranges.read();
        let freed = ranges.range(..=address).next_back().is_some_and(|(base, range)| match range {
            Range::Block(block) => !block.is_live() && address - base < block.capacity,
            Range::Global { .. } => false,
        });
        let why = if freed { "was freed" } else { "is no live allocation of a device" };
        Error::new(ErrorCode::InvalidArgument, format!("the address {address:#x} {why}"))
    }
}

impl Range {
    fn info(&self, base: u64) -> Option<AllocationInfo> {
        match self {
            Range::Global { device, bytes, .. } => Some(AllocationInfo {
                base,
                bytes: *bytes,
                owner: AllocationOwner::Global,
                device: *device,
            }),
            Range::Block(block) if block.is_live() => {
                let user = block.current_use();
                Some(AllocationInfo {
                    base,
                    bytes: user.bytes,
                    owner: AllocationOwner::Allocation {
                        kind: block.kind,
                        location: user.location,
                    },
                    device: block.device,
                })
            }
            Range::Block(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(address: u64, bytes: u64) -> Arc<Block> {
        let user = Use { bytes, location: Location::caller() };
        Arc::new(Block::new(address, 1024, MemoryKind::Device, 1, Some(3), user))
    }

    #[test]
    fn an_interior_address_finds_its_block_and_the_end_does_not() {
        let table = AllocationTable::default();
        assert!(table.insert(&block(0x1000, 1000)).is_ok());
        assert_eq!(table.find(0x1000).unwrap().base, 0x1000);
        assert_eq!(table.find(0x1000 + 999).unwrap().bytes, 1000);
        assert_eq!(table.find(0x1000 + 1000), None);
        assert_eq!(table.find(0xfff), None);
    }

    #[test]
    fn a_freed_block_is_named_as_freed() {
        let table = AllocationTable::default();
        let freed = block(0x1000, 1000);
        assert!(table.insert(&freed).is_ok());
        assert!(freed.retire());
        assert!(!freed.retire());
        let error = table.device_of(0x1010, 4).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains("was freed"), "{error}");
    }

    #[test]
    fn a_range_that_exceeds_its_block_is_an_invalid_size() {
        let table = AllocationTable::default();
        assert!(table.insert(&block(0x1000, 1000)).is_ok());
        assert_eq!(table.device_of(0x1000, 1000), Ok(1));
        let error = table.device_of(0x1004, 1000).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidSize);
        assert_eq!(table.device_of(0x1004, u64::MAX).unwrap_err().code(), ErrorCode::InvalidSize);
    }

    #[test]
    fn overlapping_blocks_are_distinguished_from_neighbours() {
        let table = AllocationTable::default();
        let [first, second] = [0x1000, 0x1800].map(|address| block(address, 1000));
        for neighbour in [&first, &second] {
            assert!(table.insert(neighbour).is_ok());
        }
        table.insert_global(1, 7, 0x1200, 8);
        for (address, overlapped) in
            [(0xc01, &first), (0x1000, &first), (0x1210, &first), (0x1401, &second)]
        {
            let refused = table.insert(&block(address, 1)).unwrap_err();
            assert!(Arc::ptr_eq(&refused, overlapped), "{address:#x}");
        }
        // A cached block is the device's still.
        assert!(first.retire());
        assert!(table.insert(&block(0x1000, 1)).is_err());
        for free in [0xc00, 0x1400, 0x1c00, u64::MAX - 1023] {
            assert!(table.insert(&block(free, 1)).is_ok(), "{free:#x}");
        }
    }

    #[test]
    fn the_longest_of_several_globals_at_one_address_counts() {
        let table = AllocationTable::default();
        assert!(table.insert(&block(0x1000, 1000)).is_ok());
        table.insert_global(1, 7, 0x1000 + 100, 0);
        assert_eq!(table.find(0x1000 + 100).unwrap().base, 0x1000);
        for bytes in [0, 4, 8, 1] {
            table.insert_global(1, 7, 0x2000, bytes);
        }
        assert_eq!(table.find(0x2007).unwrap().bytes, 8);
    }

    #[test]
    fn globals_leave_with_their_program() {
        let table = AllocationTable::default();
        table.insert_global(1, 7, 0x2000, 8);
        assert_eq!(table.find(0x2004).unwrap().owner, AllocationOwner::Global);
        table.remove_globals_of(7);
        assert_eq!(table.find(0x2004), None);
    }
}
