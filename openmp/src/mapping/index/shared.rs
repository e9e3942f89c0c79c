//! [`Shared`]: the part of the index that readers load, and the search for an address.

use super::Range;
use super::node::{Child, Leaf, NodeRef, Record, VACANT};
use crate::sync::{AtomicPtr, AtomicU64, Ordering, fence};
use std::ptr::null_mut;

/// Bits of the root's address that hold the height. The alignment of nodes keeps them free.
const HEIGHT: usize = 63;

/// The entrance to the tree, in cache lines of its own.
#[repr(align(128))]
pub(super) struct Shared<const L: usize, const I: usize> {
    /// Number of begun and ended changes; odd during a change.
    sequence: AtomicU64,
    /// The topmost node, and the number of levels above the leaves. Null in an empty tree.
    root: AtomicPtr<()>,
}

impl<const L: usize, const I: usize> Shared<L, I> {
    /// Creates the entrance to an empty tree.
    pub(super) fn new() -> Self {
        Shared { sequence: AtomicU64::new(0), root: AtomicPtr::new(null_mut()) }
    }

    /// Looks at the tree. Returns `None` if a change overlaps the call.
    #[inline]
    pub(super) fn read<R>(&self, look: impl FnOnce(&Self) -> R) -> Option<R> {
        // Acquires the changes up to this number.
        let sequence = self.sequence.load(Ordering::Acquire);
        if !sequence.is_multiple_of(2) {
            return None;
        }
        let seen = look(self);
        // Pairs with the fence in `change`: after a load of a word that a later change stored, the
        // next load returns that change's number or a later one.
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == sequence).then_some(seen)
    }

    /// Changes the tree; the caller holds the lock.
    #[inline]
    pub(super) fn change(&self, change: impl FnOnce()) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        change();
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Returns the last range that begins at `address` or before, and the first one after it. The
    /// result may be wrong during a change.
    #[inline]
    pub(super) fn around(&self, address: u64) -> (Option<Range>, Option<Range>) {
        let address = address.min(VACANT - 1);
        self.leaf(address).map_or((None, None), |leaf| leaf.around(address))
    }

    /// Returns the last range that begins at `address` or before, which is less than [`VACANT`].
    /// The result may be wrong during a change.
    #[inline]
    pub(super) fn floor(&self, address: u64) -> Option<Range> {
        let leaf = self.leaf(address)?;
        leaf.floor_at(leaf.rank(address))
    }

    /// Returns the topmost node and the height.
    #[inline]
    pub(super) fn root(&self) -> (*mut (), usize) {
        let root = self.root.load(Ordering::Acquire);
        (root.map_addr(|address| address & !HEIGHT), root.addr() & HEIGHT)
    }

    pub(super) fn set_root(&self, node: *mut (), height: usize) {
        self.root.store(node.map_addr(|address| address | height), Ordering::Release);
    }

    #[inline]
    fn leaf(&self, address: u64) -> Option<NodeRef<Record, L>> {
        self.walk(address, |_, _| ())
    }

    /// Returns the leaf for an address, or `None` in an empty tree. During a change the result may
    /// be any leaf or `None`. Shows the inner nodes on the way from the root, each with the row of
    /// the next node.
    #[inline]
    pub(super) fn walk(
        &self,
        address: u64,
        mut show: impl FnMut(NodeRef<Child, I>, usize),
    ) -> Option<NodeRef<Record, L>> {
        let (mut node, height) = self.root();
        for _ in 0..height {
            // SAFETY: the root and the values of inner nodes are null, or lead to nodes of the
            // level below. Nodes keep their level, and live as long as the index.
            let inner = unsafe { NodeRef::<Child, I>::new(node) }?;
            let at = inner.rank(address).saturating_sub(1);
            show(inner, at);
            node = inner.value(at);
        }
        // SAFETY: as above.
        unsafe { NodeRef::new(node) }
    }
}

impl<const L: usize> Leaf<L> {
    /// Returns the last range that begins at or before an address of this leaf, and the first one
    /// that begins after it.
    #[inline]
    pub(super) fn around(&self, address: u64) -> (Option<Range>, Option<Range>) {
        let rank = self.rank(address);
        (self.floor_at(rank), self.above_at(rank))
    }

    #[inline]
    fn floor_at(&self, rank: usize) -> Option<Range> {
        match rank.checked_sub(1) {
            Some(at) => Some(self.range(at)),
            None => self.before().and_then(Self::last),
        }
    }

    #[inline]
    fn above_at(&self, rank: usize) -> Option<Range> {
        if rank < L && self.key(rank) != VACANT {
            return Some(self.range(rank));
        }
        self.after().map(|after| after.range(0))
    }

    #[cold]
    fn last(&self) -> Option<Range> {
        self.len().checked_sub(1).map(|at| self.range(at))
    }

    #[inline]
    pub(super) fn range(&self, at: usize) -> Range {
        let [end, target, entry] = self.value(at);
        Range { begin: self.key(at), end, target, entry }
    }
}
