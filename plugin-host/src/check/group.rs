//! The state of a group in a checked launch: its items, their segments, and its shared memory.
//!
//! A *segment* is a part of an item's run between two barriers. Its number is unique in the
//! process. The segments of all items between two barriers have adjacent numbers: a [`Block`].
//! Exchanges, fences and releases of an item begin further segments.

use super::clocks::{Acquired, Clocks};
use super::region::Region;
use crate::kernel::abi::Work;
use std::collections::HashMap;
use std::ops::Range;
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
}

/// Number of items in a sub-group.
pub(crate) const SUBGROUP_ITEMS: u32 = 32;

/// The bounds of the segments that exchanges order before an item, by lane of the other item.
pub(crate) type Exchanged = [u32; SUBGROUP_ITEMS as usize];

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
    exchanged: Vec<Exchanged>,
    pub(crate) waits: Vec<u32>,
    pub(crate) shared: Vec<Arc<Region>>,
    pub(crate) privates: Vec<Vec<Private>>,
    /// The last item of a loop that has begun a further segment, and this segment.
    further: Option<(u32, u32)>,
    /// Other groups' releases that this group has acquired, and releases that a fence will acquire.
    pub(crate) acquired: Clocks,
    pub(crate) pending: Clocks,
    /// Releases by items of this group, for the items that have acquired them.
    pub(crate) acquired_items: HashMap<u32, Acquired>,
    pub(crate) is_fenced: bool,
    /// The segments that begin with the last fences of items since the last barrier.
    pub(crate) fences: HashMap<u32, u32>,
}

impl Group {
    pub(crate) fn new(number: u64, items: [u32; 3], mode: Mode) -> Group {
        let mut group = Group::empty(number, items, mode);
        group.restart(number, items, mode);
        group
    }

    /// Makes this group another one, which takes over its allocations.
    pub(crate) fn restart(&mut self, number: u64, items: [u32; 3], mode: Mode) {
        let former = std::mem::replace(self, Group::empty(number, items, mode));
        let is_by_fibers = mode == Mode::Fibers;
        let stacks = if is_by_fibers { self.count as usize } else { 1 };
        let Group { mut segments, mut waits, mut privates, mut shared, .. } = former;
        segments.clear();
        segments.resize(if is_by_fibers { stacks } else { 0 }, 0);
        waits.clear();
        waits.resize(stacks, 0);
        privates.iter_mut().for_each(Vec::clear);
        privates.resize_with(stacks, Vec::new);
        shared.clear();
        (self.segments, self.waits) = (segments, waits);
        (self.privates, self.shared) = (privates, shared);
    }

    fn empty(number: u64, items: [u32; 3], mode: Mode) -> Group {
        Group {
            number,
            items,
            count: items.iter().product(),
            mode,
            is_in_loop: mode == Mode::Loop,
            base: 0,
            segment: 0,
            first: 0,
            epoch_first: 0,
            epoch: 0,
            has_exchanges: false,
            current: 0,
            segments: Vec::new(),
            exchanged: Vec::new(),
            waits: Vec::new(),
            shared: Vec::new(),
            privates: Vec::new(),
            further: None,
            acquired: Clocks::default(),
            pending: Clocks::default(),
            acquired_items: HashMap::new(),
            is_fenced: false,
            fences: HashMap::new(),
        }
    }

    /// Begins an epoch, whose segments begin with `base`.
    pub(crate) fn begin_epoch(&mut self, epoch: u32, base: u32) {
        (self.base, self.epoch, self.epoch_first) = (base, epoch, base);
        self.segment = base + if self.mode == Mode::Fibers { self.current } else { self.count };
        for (item, segment) in self.segments.iter_mut().enumerate() {
            *segment = base + item as u32;
        }
        self.further = None;
        if !self.fences.is_empty() {
            self.fences.clear();
        }
    }

    /// Begins a further segment of the current item.
    pub(crate) fn begin_segment(&mut self, item: u32, segment: u32) {
        match (self.is_in_loop, self.mode) {
            (true, _) => self.further = Some((item, segment)),
            (false, Mode::Fibers) => {
                (self.segment, self.segments[item as usize]) = (segment, segment);
            }
            (false, _) => self.segment = segment,
        }
    }

    /// Orders all that some items of a sub-group did before all that they will do. The segments of
    /// the sub-group begin with `base` then.
    pub(crate) fn exchange(&mut self, items: Range<usize>, lanes: u32, base: u32) {
        self.has_exchanges = true;
        self.exchanged.resize(self.count as usize, [0; SUBGROUP_ITEMS as usize]);
        let begin = items.start;
        let chosen = || items.clone().filter(|item| lanes >> (item - begin) & 1 == 1);
        let mut all = [0; SUBGROUP_ITEMS as usize];
        for item in chosen() {
            let known = &self.exchanged[item];
            all.iter_mut().zip(known).for_each(|(all, known)| *all = (*all).max(*known));
        }
        for (lane, bound) in all.iter_mut().enumerate() {
            *bound = if lanes >> lane & 1 == 1 { base } else { *bound };
        }
        for item in chosen() {
            self.exchanged[item] = all;
            self.segments[item] = base + (item - begin) as u32;
        }
        if self.acquired_items.is_empty() {
            return;
        }
        let mut acquired = Acquired::default();
        let own = chosen().filter_map(|item| self.acquired_items.get(&(item as u32)));
        own.for_each(|own| acquired.join(own));
        for item in chosen() {
            self.acquired_items.insert(item as u32, acquired.clone());
        }
    }

    /// Returns the bounds of the segments of an item's sub-group that exchanges order before the
    /// item; none without exchanges.
    pub(crate) fn exchanged(&self, item: u32) -> &[u32] {
        self.exchanged.get(item as usize).map_or(&[], |bounds| bounds.as_slice())
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
        if !self.is_in_loop {
            return self.segment;
        }
        let item = index_of(work.item, self.items);
        match self.further {
            Some((other, segment)) if other == item => segment,
            _ => self.base + item,
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
