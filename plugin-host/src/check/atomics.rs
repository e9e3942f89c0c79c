//! Atomic operations and fences of the current item.

use super::group::Block;
use super::order::Operation;
use super::races::Touch;
use super::region::Region;
use super::session::Session;

/// Most blocks of a launch with segments behind fences and releases. Beyond it, a release covers
/// later accesses too.
const MOST_BLOCKS: usize = 1 << 22;

impl Session {
    /// Records an atomic operation of the current item, and reports its races.
    pub(crate) fn operate(&mut self, region: &Region, touch: Touch, operation: Operation) {
        if !self.kinds.races {
            return;
        }
        let item = self.item();
        self.order.acquire(&mut self.group, item, operation);
        if !self.touch_atomically(region, touch) {
            self.touch(region, touch);
        }
        let releases = operation.is_release() || operation.writes && self.group.is_fenced;
        if !releases {
            return;
        }
        let now = self.segment() + 1;
        let ends = match operation.is_release() {
            true => [self.begin_segment(); 2],
            false => [self.group.fences.get(&item).copied().unwrap_or(0), now],
        };
        self.order.release(&self.group, item, operation.address, ends);
        self.update_order();
    }

    /// Records a fence of the current item.
    pub(crate) fn pass_fence(&mut self) {
        if !self.kinds.races {
            return;
        }
        let item = self.item();
        let end = self.begin_segment();
        self.group.fences.insert(item, end);
        self.order.fence(&mut self.group, item);
        self.update();
    }

    /// Begins a new segment of the current item. Returns a bound: its earlier accesses have lower
    /// segments.
    fn begin_segment(&mut self) -> u32 {
        if self.blocks.len() >= MOST_BLOCKS {
            return self.segment() + 1;
        }
        let (item, segment) = (self.item(), self.next);
        self.next = self.next.saturating_add(1);
        let group = &mut *self.group;
        let (number, epoch) = (group.number, group.epoch);
        self.blocks.push(Block { base: segment, group: number, first_item: item, epoch });
        group.begin_segment(item, segment);
        self.order.part_loop();
        self.state.segment = segment;
        segment
    }
}
