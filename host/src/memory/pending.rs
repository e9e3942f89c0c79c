//! Freed blocks that work which was queued before may still use.

use super::block::Block;
use crate::queue::core::{Point, QueueCore};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many of the latest blocks are looked at for one that a queue can have at once.
const LOOKED_AT: usize = 32;

/// The blocks, oldest first. A block waits for each queue that was busy when it was freed, so a later
/// one is not done before an earlier one.
#[derive(Default)]
pub(super) struct PendingBlocks {
    blocks: VecDeque<PendingBlock>,
}

#[derive(Clone)]
pub(super) struct PendingBlock {
    pub(super) block: Arc<Block>,
    /// Where the queues must be.
    pub(super) points: Vec<Point>,
}

impl PendingBlocks {
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn push(&mut self, block: Arc<Block>, points: Vec<Point>) {
        self.blocks.push_back(PendingBlock { block, points });
    }

    pub(super) fn oldest(&self) -> Option<PendingBlock> {
        self.blocks.front().cloned()
    }

    /// Takes a block out; false if another thread did.
    pub(super) fn remove(&mut self, block: &Arc<Block>) -> bool {
        let place = self.blocks.iter().position(|pending| Arc::ptr_eq(&pending.block, block));
        place.and_then(|place| self.blocks.remove(place)).is_some()
    }

    /// Takes out a suitable block whose only possible user is `queue`, behind whose work the new use
    /// comes.
    pub(super) fn take_for(
        &mut self,
        queue: &Arc<QueueCore>,
        suits: impl Fn(&Block) -> bool,
    ) -> Option<Arc<Block>> {
        let is_free = |pending: &PendingBlock| {
            suits(&pending.block) && pending.points.iter().all(|point| point.is_of(queue))
        };
        let from_end = self.blocks.iter().rev().take(LOOKED_AT).position(is_free)?;
        let place = self.blocks.len() - 1 - from_end;
        self.blocks.remove(place).map(|pending| pending.block)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = PendingBlock> {
        std::mem::take(&mut self.blocks).into_iter()
    }
}
