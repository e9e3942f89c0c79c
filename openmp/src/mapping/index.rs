//! [`RangeIndex`]: the ordered index of the mapped host ranges of one device.

// The paths also hold where the models in `tests/` include this file.
#[path = "index/node.rs"]
mod node;
#[path = "index/pool.rs"]
mod pool;
#[path = "index/shared.rs"]
mod shared;
#[cfg(test)]
#[path = "index/tests.rs"]
mod tests;
#[path = "index/tree.rs"]
mod tree;

use crate::sync::{Mutex, MutexGuard, spin_loop};
use node::{NodeRef, Record, VACANT};
use shared::Shared;
use std::ops::{Deref, DerefMut};
use tree::Tree;

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

/// An ordered index of disjoint ranges, with data of the owner under the lock of its writers.
///
/// Lookups take no lock. A lookup that overlaps a change is repeated, the last time under the lock.
/// A thread that holds the lock may use them too. `L` and `I` are the capacities of leaves and of
/// inner nodes, `TRIES` the number of tries without the lock.
pub(crate) struct RangeIndex<T, const L: usize = 16, const I: usize = 64, const TRIES: usize = 64> {
    shared: Shared<L, I>,
    state: Mutex<State<T, L, I>>,
}

/// Exclusive access to the index.
pub(crate) struct Writer<'a, T, const L: usize = 16, const I: usize = 64> {
    shared: &'a Shared<L, I>,
    state: MutexGuard<'a, State<T, L, I>>,
}

/// A row of a leaf; `None` for a row that needs another search. Holds until the next change.
pub(crate) struct Place<const L: usize = 16>(Option<(NodeRef<Record, L>, usize)>);

/// The result of [`Writer::overlapping`].
pub(crate) enum Overlap<const L: usize = 16> {
    /// A range, and its place.
    Range(Range, Place<L>),
    /// The place of a new range.
    None(Place<L>),
}

struct State<T, const L: usize, const I: usize> {
    tree: Tree<L, I>,
    data: T,
}

impl<T, const L: usize, const I: usize, const TRIES: usize> RangeIndex<T, L, I, TRIES> {
    /// Creates an empty index.
    pub(crate) fn new(data: T) -> Self {
        let state = State { tree: Tree::new(), data };
        RangeIndex { shared: Shared::new(), state: Mutex::new(state) }
    }

    /// Locks the index for writing. Blocks.
    #[inline]
    pub(crate) fn lock(&self) -> Writer<'_, T, L, I> {
        Writer { shared: &self.shared, state: self.state.lock() }
    }

    /// Returns the last range that begins at `address` or before, and the first one after it.
    #[inline]
    pub(crate) fn around(&self, address: u64) -> (Option<Range>, Option<Range>) {
        let around = self.shared.read(|shared| shared.around(address));
        around.unwrap_or_else(|| self.around_again(address))
    }

    /// Returns the device address of the addresses from `begin` until `end`, if one range contains
    /// them all.
    #[inline]
    pub(crate) fn translate(&self, begin: u64, end: u64) -> Option<u64> {
        let address = begin.min(VACANT - 1);
        let found = self.shared.read(|shared| shared.floor(address));
        let range = found.unwrap_or_else(|| self.around_again(address).0)?;
        (end <= range.end).then(|| range.target.wrapping_add(begin - range.begin))
    }

    #[cold]
    fn around_again(&self, address: u64) -> (Option<Range>, Option<Range>) {
        for _ in 1..TRIES {
            spin_loop();
            if let Some(around) = self.shared.read(|shared| shared.around(address)) {
                return around;
            }
        }
        let _lock = self.state.lock();
        self.shared.around(address)
    }
}

impl<T, const L: usize, const I: usize> Writer<'_, T, L, I> {
    /// Returns the last range that begins at `address` or before, and the first one after it.
    #[inline]
    pub(crate) fn around(&self, address: u64) -> (Option<Range>, Option<Range>) {
        let address = address.min(VACANT - 1);
        let leaf = self.state.tree.leaf(self.shared, address);
        leaf.map_or((None, None), |leaf| leaf.around(address))
    }

    /// Inserts a range. A range with the same begin is replaced and returned. Nothing is inserted
    /// that begins at `u64::MAX`.
    pub(crate) fn insert(&mut self, range: Range) -> Option<Range> {
        if range.begin == VACANT {
            return None;
        }
        self.state.tree.insert(self.shared, range)
    }

    /// Removes the range that begins at `begin`, and returns it.
    pub(crate) fn remove(&mut self, begin: u64) -> Option<Range> {
        if begin == VACANT {
            return None;
        }
        self.state.tree.remove(self.shared, begin)
    }

    /// Finds the first range that shares an address with the addresses from `begin` until `end`, or
    /// else the place where such a range belongs.
    #[inline]
    pub(crate) fn overlapping(&self, begin: u64, end: u64) -> Overlap<L> {
        let address = begin.min(VACANT - 1);
        let Some(leaf) = self.state.tree.leaf(self.shared, address) else {
            return Overlap::None(Place(None));
        };
        let rank = leaf.rank(address);
        let floor = match rank {
            0 => leaf.before().and_then(|before| Some((before, before.len().checked_sub(1)?))),
            _ => Some((&*leaf, rank - 1)),
        };
        if let Some((node, at)) = floor
            && begin < node.value(at)[0]
        {
            // Only a range of this leaf has a place in it.
            let place = (rank > 0).then_some((leaf, at));
            return Overlap::Range(node.range(at), Place(place));
        }
        let above = match rank < L && leaf.key(rank) != VACANT {
            true => Some((&*leaf, rank)),
            false => leaf.after().map(|after| (after, 0)),
        };
        match above {
            Some((node, at)) if node.key(at) < end => Overlap::Range(node.range(at), Place(None)),
            _ => Overlap::None(Place(Some((leaf, rank)))),
        }
    }

    /// Inserts a range at the place that [`Writer::overlapping`] has returned for it, with no
    /// change in between.
    #[inline]
    pub(crate) fn insert_at(&mut self, place: Place<L>, range: Range) {
        let value = [range.end, range.target, range.entry];
        match place.0 {
            Some((leaf, at)) if leaf.len() < L && range.begin != VACANT => {
                self.shared.change(|| leaf.insert(at, range.begin, value));
            }
            _ => drop(self.insert(range)),
        }
    }

    /// Removes the range at the place that [`Writer::overlapping`] has returned with it, with no
    /// change in between.
    #[inline]
    pub(crate) fn remove_at(&mut self, place: Place<L>, range: Range) {
        match place.0 {
            Some((leaf, at)) if Tree::is_simple_removal(self.shared, &leaf) => {
                self.shared.change(|| leaf.remove(at));
            }
            _ => drop(self.remove(range.begin)),
        }
    }

    /// Calls `visit` for each range, in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Range)) {
        let first = self.state.tree.leaf(self.shared, 0);
        let mut next = first.as_deref();
        while let Some(leaf) = next {
            (0..leaf.len()).for_each(|at| visit(leaf.range(at)));
            next = leaf.after();
        }
    }
}

impl<T, const L: usize, const I: usize> Deref for Writer<'_, T, L, I> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state.data
    }
}

impl<T, const L: usize, const I: usize> DerefMut for Writer<'_, T, L, I> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state.data
    }
}
