//! [`Node`]: a node of the tree, in memory that never changes its type.
//!
//! A reader may look at a node while the writer changes, recycles or reuses it. All contents are
//! therefore atomic, and pointers lead only to nodes of their own level. Such a reader may find a
//! wrong range, and then finds a changed sequence number.

use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

/// The key of an unused row. It exceeds the begins of all ranges.
pub(super) const VACANT: u64 = u64::MAX;

/// A node of ranges; a key is the begin of a range.
pub(super) type Leaf<const N: usize> = Node<Record, N>;

/// A range without its begin: end, target and entry.
pub(super) type Record = [AtomicU64; 3];
/// The child of an inner node: a leaf or an inner node, according to the parent's level. The key is
/// the lower bound of the child, and 0 for the first child.
pub(super) type Child = AtomicPtr<()>;

/// Up to `N` rows of a key and a value, in the order of keys. Keys of unused rows are [`VACANT`].
#[repr(C, align(64))]
pub(super) struct Node<V, const N: usize> {
    keys: [AtomicU64; N],
    values: [V; N],
    len: AtomicUsize,
    before: AtomicPtr<Self>,
    after: AtomicPtr<Self>,
}

/// The type of values of one level.
pub(super) trait Value {
    type Plain: Copy;
    /// Whether keys are lower bounds.
    const HAS_BOUNDS: bool;

    fn vacant() -> Self;
    fn read(&self) -> Self::Plain;
    fn write(&self, plain: Self::Plain);
}

impl Value for Record {
    type Plain = [u64; 3];
    const HAS_BOUNDS: bool = false;

    fn vacant() -> Self {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[inline]
    fn read(&self) -> [u64; 3] {
        self.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn write(&self, plain: [u64; 3]) {
        self.iter().zip(plain).for_each(|(word, plain)| word.store(plain, Ordering::Relaxed));
    }
}

impl Value for Child {
    type Plain = *mut ();
    const HAS_BOUNDS: bool = true;

    fn vacant() -> Self {
        AtomicPtr::new(null_mut())
    }

    /// Returns the pointer, and acquires the initialization of its node.
    #[inline]
    fn read(&self) -> *mut () {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn write(&self, plain: *mut ()) {
        self.store(plain, Ordering::Release);
    }
}

impl<V: Value, const N: usize> Node<V, N> {
    /// Creates an empty node.
    pub(super) fn new() -> Self {
        Node {
            keys: std::array::from_fn(|_| AtomicU64::new(VACANT)),
            values: std::array::from_fn(|_| V::vacant()),
            len: AtomicUsize::new(0),
            before: AtomicPtr::new(null_mut()),
            after: AtomicPtr::new(null_mut()),
        }
    }

    /// Returns the number of used rows.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> u64 {
        self.keys[at].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn value(&self, at: usize) -> V::Plain {
        self.values[at].read()
    }

    #[inline]
    pub(super) fn set_key(&self, at: usize, key: u64) {
        self.keys[at].store(key, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn set_value(&self, at: usize, value: V::Plain) {
        self.values[at].write(value);
    }

    /// Returns the number of rows with keys up to `address`, which is less than [`VACANT`].
    ///
    /// The comparisons have no branches, which random addresses would mispredict. The first ones
    /// count groups of rows, the others the rows of one group.
    #[inline]
    pub(super) fn rank(&self, address: u64) -> usize {
        let is_counted = |at| usize::from(self.key(at) <= address);
        let groups: usize = (1..N / Self::GROUP).map(|end| is_counted(end * Self::GROUP - 1)).sum();
        let first = groups * Self::GROUP;
        first + (first..first + Self::GROUP).map(is_counted).sum::<usize>()
    }

    /// Number of rows of a group: about the square root of `N`, which is a multiple.
    const GROUP: usize = match N {
        64 => 8,
        16 => 4,
        _ => N,
    };

    /// Returns the node before this one in its level.
    #[inline]
    pub(super) fn before(&self) -> Option<&Self> {
        // SAFETY: links lead to nodes of the same tree, all of which live as long as the tree.
        unsafe { self.before.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the node after this one in its level.
    #[inline]
    pub(super) fn after(&self) -> Option<&Self> {
        // SAFETY: as in `before`.
        unsafe { self.after.load(Ordering::Acquire).as_ref() }
    }

    /// Inserts a row.
    ///
    /// # Panics
    /// The node is full.
    #[inline]
    pub(super) fn insert(&self, at: usize, key: u64, value: V::Plain) {
        let len = self.len();
        assert!(at <= len && len < N);
        (at..len).rev().for_each(|row| self.copy_row(row, self, row + 1));
        self.set_key(at, key);
        self.set_value(at, value);
        self.set_len(len + 1);
    }

    /// Removes a row.
    ///
    /// # Panics
    /// The row is unused.
    #[inline]
    pub(super) fn remove(&self, at: usize) {
        let len = self.len();
        assert!(at < len && len <= N);
        (at + 1..len).for_each(|row| self.copy_row(row, self, row - 1));
        self.set_key(len - 1, VACANT);
        self.set_len(len - 1);
    }

    /// Moves the rows from `middle` on to an empty node, and links it after this one.
    pub(super) fn split(&self, middle: usize, empty: &Self) {
        let len = self.len();
        for row in middle..len {
            self.copy_row(row, empty, row - middle);
            self.set_key(row, VACANT);
        }
        empty.set_len(len - middle);
        self.set_len(middle);
        link(Some(empty), self.after());
        link(Some(self), Some(empty));
    }

    /// Copies the rows of the node after this one to the end of this one, and unlinks that node.
    pub(super) fn absorb(&self, after: &Self) {
        let len = self.len();
        (0..after.len()).for_each(|row| after.copy_row(row, self, len + row));
        self.set_len(len + after.len());
        after.unlink();
    }

    /// Removes the node from its level.
    pub(super) fn unlink(&self) {
        link(self.before(), self.after());
    }

    /// Makes an unlinked node a new one.
    pub(super) fn clear(&self) {
        (0..self.len()).for_each(|row| self.set_key(row, VACANT));
        self.set_len(0);
        self.before.store(null_mut(), Ordering::Release);
        self.after.store(null_mut(), Ordering::Release);
    }

    #[inline]
    fn copy_row(&self, row: usize, to: &Self, to_row: usize) {
        to.set_key(to_row, self.key(row));
        to.set_value(to_row, self.value(row));
    }

    #[inline]
    fn set_len(&self, len: usize) {
        self.len.store(len, Ordering::Relaxed);
    }
}

/// Makes two nodes neighbours; `None` is an end of the level.
fn link<V, const N: usize>(before: Option<&Node<V, N>>, after: Option<&Node<V, N>>) {
    let pointer = |node: Option<&Node<V, N>>| {
        node.map_or(null_mut(), |node| NonNull::from_ref(node).as_ptr())
    };
    if let Some(node) = before {
        node.after.store(pointer(after), Ordering::Release);
    }
    if let Some(node) = after {
        node.before.store(pointer(before), Ordering::Release);
    }
}

/// A pointer to a node of a tree that outlives it.
pub(super) struct NodeRef<V, const N: usize>(NonNull<Node<V, N>>);

impl<V, const N: usize> Clone for NodeRef<V, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, const N: usize> Copy for NodeRef<V, N> {}

// SAFETY: the contents of nodes are atomic.
unsafe impl<V: Sync, const N: usize> Send for NodeRef<V, N> {}

impl<V, const N: usize> NodeRef<V, N> {
    /// Returns `None` for a null pointer.
    ///
    /// # Safety
    /// The node has this type, and the new pointer is not used after the node's tree is dropped.
    #[inline]
    pub(super) unsafe fn new(node: *mut ()) -> Option<Self> {
        NonNull::new(node.cast()).map(NodeRef)
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut () {
        self.0.as_ptr().cast()
    }
}

impl<V, const N: usize> Deref for NodeRef<V, N> {
    type Target = Node<V, N>;

    #[inline]
    fn deref(&self) -> &Node<V, N> {
        // SAFETY: the caller of `new` promised it.
        unsafe { self.0.as_ref() }
    }
}
