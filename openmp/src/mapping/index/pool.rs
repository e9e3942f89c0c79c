//! [`Pool`]: memory for the nodes of one level.

use super::node::{Node, NodeRef, Value};
use std::ptr::NonNull;

/// Greatest number of nodes of a chunk.
const CHUNK: usize = 256;

/// Memory for the nodes of one level, freed when the pool is dropped.
pub(super) struct Pool<V, const N: usize> {
    free: Vec<NodeRef<V, N>>,
    chunks: Vec<NonNull<[Node<V, N>]>>,
}

// SAFETY: the pool owns its nodes, whose contents are atomic.
unsafe impl<V: Send + Sync, const N: usize> Send for Pool<V, N> {}

impl<V: Value, const N: usize> Pool<V, N> {
    /// Creates a pool without memory.
    pub(super) const fn new() -> Self {
        Pool { free: Vec::new(), chunks: Vec::new() }
    }

    /// Makes the next [`Pool::take`] succeed. Allocates at most as many nodes as there are, and at
    /// most [`CHUNK`].
    #[inline]
    pub(super) fn reserve(&mut self) {
        if self.free.is_empty() {
            self.grow();
        }
    }

    /// Returns the number of free and used nodes.
    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    #[cold]
    fn grow(&mut self) {
        let len = self.len().clamp(1, CHUNK);
        let chunk: Box<[Node<V, N>]> = (0..len).map(|_| Node::new()).collect();
        let chunk = NonNull::from(Box::leak(chunk));
        self.chunks.push(chunk);
        let first = chunk.cast::<Node<V, N>>();
        for at in (0..len).rev() {
            // SAFETY: the chunk has more than `at` nodes and lives as long as the pool.
            self.free.extend(unsafe { NodeRef::new(first.add(at).as_ptr().cast()) });
        }
    }

    /// Returns an empty node.
    ///
    /// # Panics
    /// No node was reserved.
    pub(super) fn take(&mut self) -> NodeRef<V, N> {
        self.free.pop().expect("the tree reserves nodes before it takes them")
    }

    /// Recycles an unlinked node, at which readers may still look.
    pub(super) fn recycle(&mut self, node: NodeRef<V, N>) {
        node.clear();
        self.free.push(node);
    }
}

impl<V, const N: usize> Drop for Pool<V, N> {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: `grow` leaked this box. The tree is being dropped, so it has no readers.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}
