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
use node::VACANT;
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
