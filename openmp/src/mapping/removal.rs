//! The removal of entries from the mapping table.

use super::table::{self, Locked};
use crate::info;
use crate::memory::Memory;
use crate::ompt;
use crate::settings::{info as kinds, wants};

/// Removes an entry that no construct uses. Returns memory that the caller frees. `bytes` is the
/// size to print.
#[inline]
pub(super) fn remove_if_unused(
    locked: &mut Locked<'_>,
    device: usize,
    number: u32,
    bytes: u64,
) -> Option<Memory> {
    let entry = locked.get(number);
    if entry.total() != 0 || entry.ending != 0 || entry.copying != 0 {
        return None;
    }
    let entry = table::remove(locked, number);
    if wants(kinds::MAPPING_CHANGED) {
        info::removed_mapping(device, &entry, bytes);
    }
    match entry.memory? {
        block @ Memory::Block(..) => {
            let _scope = ompt::deletion(device, block.address());
            locked.pool.free(block);
            None
        }
        own => Some(own),
    }
}
