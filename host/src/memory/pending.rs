//! Freed blocks that queued work may still use.

use super::block::Block;
use crate::queue::core::{Point, QueueCore};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of the latest blocks that [`PendingBlocks::take_for`] examines.
const LOOKED_AT: usize = 32;

/// The freed blocks that wait for queued work, oldest first. A block waits for each queue that was
/// busy at the time of its freeing, so a later block is not ready before an earlier one.
#[derive(Default)]
pub(super) struct PendingBlocks {
    blocks: VecDeque<PendingBlock>,
}

#[derive(Clone)]
pub(super) struct PendingBlock {
    pub(super) block: Arc<Block>,
    /// The points that the queues must pass before the block is reused.
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

    /// Removes a block. Returns false if another thread has removed it.
    pub(super) fn remove(&mut self, block: &Arc<Block>) -> bool {
        let place = self.blocks.iter().position(|pending| Arc::ptr_eq(&pending.block, block));
        place.and_then(|place| self.blocks.remove(place)).is_some()
    }

    /// Removes and returns a suitable block that only queued work of `queue` may use. The caller's
    /// new use comes behind that work.
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
