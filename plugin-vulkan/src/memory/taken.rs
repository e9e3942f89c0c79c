//! The addresses of all devices' allocations. Devices with separate address spaces may allocate the
//! same addresses, and the host would confuse the allocations.

use super::Region;
use parking_lot::Mutex;
use std::collections::BTreeMap;

static RANGES: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Claims a region's addresses. Returns `false` if another region has some of them.
pub(super) fn claim(region: &Region) -> bool {
    let end = region.address.saturating_add(region.bytes);
    let mut ranges = RANGES.lock();
    let before = ranges.range(..end).next_back();
    if before.is_some_and(|(_, before_end)| *before_end > region.address) {
        return false;
    }
    ranges.insert(region.address, end);
    true
}

/// Releases a region's addresses.
pub(super) fn give_up(region: &Region) {
    RANGES.lock().remove(&region.address);
}
