//! Which addresses allocations of all devices have. Devices with address spaces of their own may hand
//! out the same ones, and the host would take one allocation for another.

use super::Region;
use parking_lot::Mutex;
use std::collections::BTreeMap;

static RANGES: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Takes a region's addresses, unless some are taken.
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

/// Gives them up.
pub(super) fn give_up(region: &Region) {
    RANGES.lock().remove(&region.address);
}
