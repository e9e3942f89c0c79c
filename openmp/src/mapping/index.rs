//! The ordered index of mapped host ranges.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// A mapped host range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// First host address.
    pub(crate) begin: u64,
    /// End of the host range.
    pub(crate) end: u64,
    /// Device address of `begin`.
    pub(crate) target: u64,
    /// A word of the owner.
    pub(crate) entry: u64,
}

/// An ordered index of disjoint ranges, with data of the owner.
pub(crate) struct RangeIndex<T> {
    state: Mutex<(BTreeMap<u64, Range>, T)>,
}

/// Exclusive access to the index.
pub(crate) struct Writer<'a, T> {
    state: MutexGuard<'a, (BTreeMap<u64, Range>, T)>,
}

impl<T> RangeIndex<T> {
    /// Creates an empty index.
    pub(crate) fn new(data: T) -> RangeIndex<T> {
        RangeIndex { state: Mutex::new((BTreeMap::new(), data)) }
    }

    /// Locks the index for writing. Blocks.
    pub(crate) fn lock(&self) -> Writer<'_, T> {
        Writer { state: self.state.lock() }
    }

    /// Returns the last range that begins at `address` or before, and the first one after it.
    pub(crate) fn around(&self, address: u64) -> (Option<Range>, Option<Range>) {
        self.lock().around(address)
    }
}

impl<T> Writer<'_, T> {
    /// Returns the last range that begins at `address` or before, and the first one after it.
    pub(crate) fn around(&self, address: u64) -> (Option<Range>, Option<Range>) {
        let ranges = &self.state.0;
        let floor = ranges.range(..=address).next_back().map(|(_, range)| *range);
        let above = ranges
            .range((std::ops::Bound::Excluded(address), std::ops::Bound::Unbounded))
            .next()
            .map(|(_, range)| *range);
        (floor, above)
    }

    /// Inserts a range.
    pub(crate) fn insert(&mut self, range: Range) {
        self.state.0.insert(range.begin, range);
    }

    /// Removes the range that begins at `begin`.
    pub(crate) fn remove(&mut self, begin: u64) -> Option<Range> {
        self.state.0.remove(&begin)
    }

    /// Calls `visit` for each range, in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Range)) {
        self.state.0.values().for_each(|range| visit(*range));
    }
}

impl<T> Deref for Writer<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state.1
    }
}

impl<T> DerefMut for Writer<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state.1
    }
}
