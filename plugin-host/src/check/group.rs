//! The state of a group in a checked launch: its items, their segments, and its shared memory.
//!
//! A *segment* is a part of an item's run between two barriers. Its number is unique in the
//! process. The segments of all items between two barriers have adjacent numbers: a [`Block`].

use super::intervals::Intervals;
use super::region::Region;
use crate::kernel::abi::Work;
use std::collections::HashMap;
use std::sync::Arc;

/// The execution of a group's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A loop over the items; the work has the current one.
    Loop,
    /// Loops in the group's own code, which is outside of any item first.
    Regions,
    /// A stack for each item.
    Fibers,
    /// Loops by the pass of `jit/work-items`, which keep the current segment in the session's
    /// state.
    ItemLoops,
}

/// Adjacent segments of items of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) base: u32,
    pub(crate) group: u64,
    /// Index of the item of the first segment.
    pub(crate) first_item: u32,
    /// Number of barriers that the group passed before.
    pub(crate) epoch: u32,
    /// Number of exchanges that the sub-group passed since the barrier.
    pub(crate) exchanges: u32,
}

/// A variable on an item's stack whose address the item passes on.
pub(crate) struct Private {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// A running group.
pub(crate) struct Group {
    pub(crate) number: u64,
    pub(crate) items: [u32; 3],
    /// Number of items; as an index, the group's own code.
    pub(crate) count: u32,
    pub(crate) mode: Mode,
    /// Whether the work has the current item.
    pub(crate) is_in_loop: bool,
    /// Segment of the first item in a loop.
    pub(crate) base: u32,
    /// The current segment outside of loops.
    pub(crate) segment: u32,
    /// First segments of the group, and of the group since the last barrier. Segments between them
    /// are ordered before the current one. Both are 0 if groups take turns.
    pub(crate) first: u32,
    pub(crate) epoch_first: u32,
    pub(crate) epoch: u32,
    pub(crate) has_exchanges: bool,
    /// The current item, segments, exchanges and the last waits' places, of items with stacks.
    pub(crate) current: u32,
    pub(crate) segments: Vec<u32>,
    pub(crate) exchanges: Vec<u32>,
    pub(crate) waits: Vec<u32>,
    pub(crate) shared: Vec<Arc<Region>>,
    pub(crate) privates: Vec<Vec<Private>>,
    /// Groups whose releases this group has acquired, and groups that a fence will acquire.
    pub(crate) acquired: Intervals,
    pub(crate) pending: Intervals,
    /// Items of this group whose releases an item has acquired.
    pub(crate) acquired_items: HashMap<u32, Intervals>,
    pub(crate) is_fenced: bool,
}

impl Group {
    pub(crate) fn new(number: u64, items: [u32; 3], mode: Mode) -> Group {
        let count = items.iter().product();
        let (stacks, exchanges) = match mode {
            Mode::Fibers => (count as usize, (count as usize).div_ceil(32)),
            _ => (1, 0),
        };
        Group {
            number,
            items,
            count,
            mode,
            is_in_loop: mode == Mode::Loop,
            base: 0,
            segment: 0,
            first: 0,
            epoch_first: 0,
            epoch: 0,
            has_exchanges: false,
            current: 0,
            segments: vec![0; if mode == Mode::Fibers { stacks } else { 0 }],
            exchanges: vec![0; exchanges],
            waits: vec![0; stacks],
            shared: Vec::new(),
            privates: std::iter::repeat_with(Vec::new).take(stacks).collect(),
            acquired: Intervals::default(),
            pending: Intervals::default(),
            acquired_items: HashMap::new(),
            is_fenced: false,
        }
    }

    /// Returns the index of the current item; [`Group::count`] for the group's own code.
    #[inline]
    pub(crate) fn item(&self, work: &Work) -> u32 {
        match (self.is_in_loop, self.mode) {
            (true, _) => index_of(work.item, self.items),
            (false, Mode::Fibers) => self.current,
            (false, _) => self.count,
        }
    }

    /// Returns the segment of the current item.
    #[inline]
    pub(crate) fn segment(&self, work: &Work) -> u32 {
        match self.is_in_loop {
            true => self.base + index_of(work.item, self.items),
            false => self.segment,
        }
    }

    /// Returns the variables on the current item's stack.
    pub(crate) fn privates(&mut self) -> &mut Vec<Private> {
        let index = if self.mode == Mode::Fibers { self.current as usize } else { 0 };
        &mut self.privates[index]
    }

    /// Returns the variables on the current item's stack, the last one first.
    pub(crate) fn all_privates(&self) -> impl Iterator<Item = &Private> {
        let index = if self.mode == Mode::Fibers { self.current as usize } else { 0 };
        self.privates[index].iter().rev()
    }

    /// Enters a variable on the current item's stack.
    pub(crate) fn begin_private(&mut self, start: u64, bytes: u64) {
        let privates = self.privates();
        // The variables above it belong to functions that are over.
        privates.retain(|known| known.start != start);
        privates.push(Private { start, bytes });
    }

    /// Removes a variable on the current item's stack.
    pub(crate) fn end_private(&mut self, start: u64) {
        self.privates().retain(|known| known.start != start);
    }

    /// Notes the place at which the current item waits.
    pub(crate) fn note_wait(&mut self, place: u32) {
        let index = if self.mode == Mode::Fibers { self.current as usize } else { 0 };
        self.waits[index] = place;
    }

    /// Returns whether a segment is ordered before the current one by a barrier.
    #[inline]
    pub(crate) fn is_before_barrier(&self, segment: u32) -> bool {
        segment >= self.first && segment < self.epoch_first
    }

    /// Returns the coordinates of an item.
    pub(crate) fn coordinates(&self, item: u32) -> [u32; 3] {
        let [width, height, _] = self.items;
        [item % width, item / width % height, item / width / height]
    }
}

#[inline]
fn index_of([x, y, z]: [u32; 3], [width, height, _]: [u32; 3]) -> u32 {
    (z * height + y) * width + x
}
