//! [`Tree`]: the writer's part of the index, a B+tree.
//!
//! All leaves have equal depth, and no node but a leaf that is the root is empty. A node with at
//! most a quarter of its rows in use is merged with a neighbour of the same parent if three
//! quarters suffice for both.

use super::Range;
use super::node::{Child, Leaf, NodeRef, Record, VACANT, Value};
use super::pool::Pool;
use super::shared::Shared;
use std::cell::Cell;

/// Base-2 logarithm of the number of leaves in `Tree::recent`.
const RECENT_BITS: u32 = 3;

/// The memory of the tree, and the writer's shortcuts.
pub(super) struct Tree<const L: usize, const I: usize> {
    leaves: Pool<Record, L>,
    /// Inner nodes by level, from the parents of leaves on.
    inners: Vec<Pool<Child, I>>,
    /// Leaves of recent operations by a hash of the address; they spare later operations a descent.
    recent: [Cell<Option<Recent<L>>>; 1 << RECENT_BITS],
    /// Memory for a path.
    path: Vec<Step<I>>,
}

/// A leaf, with the addresses from `low` until `high`.
#[derive(Clone, Copy)]
struct Recent<const L: usize> {
    leaf: NodeRef<Record, L>,
    low: u64,
    high: u64,
}

/// An inner node above a leaf, and the row of the next node on the way to the leaf.
type Step<const I: usize> = (NodeRef<Child, I>, usize);

impl<const L: usize, const I: usize> Tree<L, I> {
    /// Creates an empty tree.
    pub(super) fn new() -> Self {
        Tree {
            leaves: Pool::new(),
            inners: Vec::new(),
            recent: std::array::from_fn(|_| Cell::new(None)),
            path: Vec::new(),
        }
    }

    /// Returns the number of free and used nodes.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.leaves.len() + self.inners.iter().map(Pool::len).sum::<usize>()
    }

    /// Returns the leaf for an address, or `None` in an empty tree.
    #[inline]
    pub(super) fn leaf(&self, shared: &Shared<L, I>, address: u64) -> Option<NodeRef<Record, L>> {
        // Multiplies the number of the page by the golden ratio.
        let hash = (address >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS);
        let place = &self.recent[hash as usize];
        if let Some(recent) = place.get()
            && (recent.low..recent.high).contains(&address)
        {
            return Some(recent.leaf);
        }
        let recent = descend(shared, address)?;
        place.set(Some(recent));
        Some(recent.leaf)
    }

    /// Inserts a range; the range with the same begin that it replaces is returned.
    #[inline]
    pub(super) fn insert(&mut self, shared: &Shared<L, I>, range: Range) -> Option<Range> {
        let value = [range.end, range.target, range.entry];
        let Some(leaf) = self.leaf(shared, range.begin) else {
            self.insert_first(shared, range.begin, value);
            return None;
        };
        let at = leaf.rank(range.begin);
        if let Some(replaced) = at.checked_sub(1).filter(|at| leaf.key(*at) == range.begin) {
            let former = leaf.range(replaced);
            shared.change(|| leaf.set_value(replaced, value));
            return Some(former);
        }
        if leaf.len() < L {
            shared.change(|| leaf.insert(at, range.begin, value));
        } else {
            self.reserve(shared, range.begin);
            shared.change(|| self.insert_full(shared, leaf, at, (range.begin, value)));
        }
        None
    }

    #[cold]
    fn insert_first(&mut self, shared: &Shared<L, I>, begin: u64, value: [u64; 3]) {
        self.leaves.reserve();
        let leaf = self.leaves.take();
        leaf.insert(0, begin, value);
        shared.change(|| shared.set_root(leaf.as_ptr(), 0));
    }

    /// Stores the path to an address, and reserves nodes for all levels and a new root.
    #[cold]
    fn reserve(&mut self, shared: &Shared<L, I>, address: u64) {
        self.find_path(shared, address);
        self.leaves.reserve();
        if self.inners.len() == self.path.len() {
            self.inners.push(Pool::new());
        }
        self.inners[..=self.path.len()].iter_mut().for_each(Pool::reserve);
    }

    /// Stores the path to an address.
    fn find_path(&mut self, shared: &Shared<L, I>, address: u64) {
        self.path.clear();
        shared.walk(address, |node, at| self.path.push((node, at)));
        self.path.reverse();
    }

    /// Inserts a row into the full leaf of the path.
    fn insert_full(
        &mut self,
        shared: &Shared<L, I>,
        leaf: NodeRef<Record, L>,
        at: usize,
        row: (u64, [u64; 3]),
    ) {
        self.forget();
        let (mut key, right) = insert_split(&mut self.leaves, leaf, at, row);
        let mut child = right.as_ptr();
        for (level, (node, at)) in self.path.iter().enumerate() {
            if node.len() < I {
                return node.insert(at + 1, key, child);
            }
            let pool = &mut self.inners[level];
            let (bound, right) = insert_split(pool, *node, at + 1, (key, child));
            (key, child) = (bound, right.as_ptr());
        }
        let (top, height) = shared.root();
        let root = self.inners[height].take();
        root.insert(0, 0, top);
        root.insert(1, key, child);
        shared.set_root(root.as_ptr(), height + 1);
    }

    /// Removes the range that begins there, and returns it.
    #[inline]
    pub(super) fn remove(&mut self, shared: &Shared<L, I>, begin: u64) -> Option<Range> {
        let leaf = self.leaf(shared, begin)?;
        let at = leaf.rank(begin).checked_sub(1).filter(|at| leaf.key(*at) == begin)?;
        let range = leaf.range(at);
        if Self::is_simple_removal(shared, &leaf) {
            shared.change(|| leaf.remove(at));
        } else {
            self.find_path(shared, begin);
            shared.change(|| self.remove_thin(shared, leaf, at));
        }
        Some(range)
    }

    /// Returns whether a removal from a leaf changes no other node. A root that is a leaf stays,
    /// even without rows.
    #[inline]
    pub(super) fn is_simple_removal(shared: &Shared<L, I>, leaf: &Leaf<L>) -> bool {
        leaf.len() > quarter(L) || shared.root().1 == 0
    }

    /// Removes a row from the thin leaf of the path. Merges nodes that are thin then.
    #[cold]
    fn remove_thin(&mut self, shared: &Shared<L, I>, leaf: NodeRef<Record, L>, at: usize) {
        leaf.remove(at);
        let parent = self.path.first().expect("a leaf below a root has a path");
        let mut merged = merge(&mut self.leaves, *parent);
        for level in 0.. {
            let Some(at) = merged else { return };
            self.forget();
            let (node, _) = self.path[level];
            node.remove(at);
            if at == 0 && node.len() > 0 {
                node.set_key(0, 0);
            }
            if node.len() > quarter(I) {
                return;
            }
            let Some(parent) = self.path.get(level + 1) else {
                return self.remove_roots(shared);
            };
            merged = merge(&mut self.inners[level], *parent);
        }
    }

    /// Removes topmost nodes that have one child.
    fn remove_roots(&mut self, shared: &Shared<L, I>) {
        while let (root, height @ 1..) = shared.root() {
            // SAFETY: the root of a tree with levels is an inner node, and lives as long as the
            // tree.
            let root =
                unsafe { NodeRef::<Child, I>::new(root) }.expect("trees with levels have a root");
            if root.len() > 1 {
                return;
            }
            shared.set_root(root.value(0), height - 1);
            self.inners[height - 1].recycle(root);
        }
    }

    /// Forgets recent leaves, whose bounds change.
    fn forget(&mut self) {
        self.recent = std::array::from_fn(|_| Cell::new(None));
    }
}

fn descend<const L: usize, const I: usize>(
    shared: &Shared<L, I>,
    address: u64,
) -> Option<Recent<L>> {
    let (mut low, mut high) = (0, VACANT);
    let leaf = shared.walk(address, |node, at| {
        low = low.max(node.key(at));
        if at + 1 < I {
            high = high.min(node.key(at + 1));
        }
    })?;
    Some(Recent { leaf, low, high })
}

/// Returns a quarter of a capacity: the number of rows up to which a node is thin.
const fn quarter(capacity: usize) -> usize {
    if capacity < 4 { 1 } else { capacity / 4 }
}

/// Inserts a row into a full node, the upper part of which becomes a new node. Returns the lower
/// bound of the new node, and the node.
fn insert_split<V: Value, const N: usize>(
    pool: &mut Pool<V, N>,
    node: NodeRef<V, N>,
    at: usize,
    (key, value): (u64, V::Plain),
) -> (u64, NodeRef<V, N>) {
    let new = pool.take();
    // Ascending and descending insertions leave nodes behind that are full by three quarters. Not
    // by more: a removal would soon merge the new node, and an insertion split it again.
    let middle = match at {
        0 => quarter(N),
        _ if at == N => N - quarter(N),
        _ => N / 2,
    };
    node.split(middle, &new);
    if at > middle {
        new.insert(at - middle, key, value);
    } else {
        node.insert(at, key, value);
    }
    let bound = new.key(0);
    if V::HAS_BOUNDS {
        new.set_key(0, 0);
    }
    (bound, new)
}

/// Merges a thin child of a parent with a neighbour, or removes it if it is empty. Returns the row
/// of the parent whose child was removed.
fn merge<V: Value, const N: usize, const I: usize>(
    pool: &mut Pool<V, N>,
    (parent, at): Step<I>,
) -> Option<usize> {
    // SAFETY: the caller passes a pool for the parent's children, which live as long as the tree.
    let child = |at| unsafe { NodeRef::<V, N>::new(parent.value(at)) };
    let child = |at| child(at).expect("used rows have children");
    let is_empty = child(at).len() == 0;
    if parent.len() == 1 {
        if is_empty {
            child(at).unlink();
            pool.recycle(child(at));
        }
        return is_empty.then_some(at);
    }
    let at = at.max(1);
    let (left, right) = (child(at - 1), child(at));
    let len = left.len();
    if !is_empty && len + right.len() > N - quarter(N) {
        return None;
    }
    left.absorb(&right);
    if V::HAS_BOUNDS && (1..left.len()).contains(&len) {
        left.set_key(len, parent.key(at));
    }
    pool.recycle(right);
    Some(at)
}
