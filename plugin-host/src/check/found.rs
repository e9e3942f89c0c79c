//! The accesses of all items of a loop at one place of its code.

use super::group::Group;
use super::region::{Cells, Record, Region};

/// A range that is right so far.
pub(crate) struct Found {
    pub(crate) region: *const Region,
    /// Offset in the region for the first item.
    pub(crate) offset: u64,
    pub(crate) stride: i64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
    /// The first offset, and the one behind the last.
    pub(crate) low: u64,
    pub(crate) end: u64,
    /// The record, without a segment.
    pub(crate) record: Record,
    pub(crate) past: Past,
    pub(crate) plan: Plan,
}

/// The change of records by a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Each record is replaced.
    Replace,
    /// Each record stays.
    Keep,
    /// Some records are replaced.
    Both,
}

/// The memory of ranges: for each region, from the first byte to the last.
#[derive(Default)]
pub(crate) struct Hulls {
    hulls: [Option<(*const Region, u64, u64)>; HULLS],
}

const HULLS: usize = 4;

impl Hulls {
    /// Adds a range. Returns whether it may share bytes with one that was added before.
    #[inline]
    pub(crate) fn add(&mut self, range: &Found) -> bool {
        for hull in &mut self.hulls {
            match hull {
                None => {
                    *hull = Some((range.region, range.low, range.end));
                    return false;
                }
                Some((region, low, end)) if *region == range.region => {
                    let meets = range.low < *end && *low < range.end;
                    (*low, *end) = (range.low.min(*low), range.end.max(*end));
                    return meets;
                }
                Some(_) => {}
            }
        }
        true
    }
}

/// The segments that are over, for accesses of a region.
#[derive(Clone, Copy)]
pub(crate) struct Past {
    /// Segments below this one.
    bound: u32,
    /// Segments from `group_first`, `span` of them.
    group_first: u32,
    span: u32,
}

/// A word that an item accesses.
pub(crate) struct Word {
    pub(crate) item: u32,
    /// Index of the word in its region.
    pub(crate) index: usize,
}

impl Found {
    /// Calls `body` for the words of all items. Returns whether it has returned `true` for all.
    #[inline(always)]
    pub(crate) fn all_words(&self, items: u32, mut body: impl FnMut(Word) -> bool) -> bool {
        let (mut first, step) = ((self.offset / 4) as i64, self.stride / 4);
        if self.bytes == 4 {
            for item in 0..items {
                if !body(Word { item, index: first as usize }) {
                    return false;
                }
                first += step;
            }
            return true;
        }
        for item in 0..items {
            for index in [first, first + 1] {
                if !body(Word { item, index: index as usize }) {
                    return false;
                }
            }
            first += step;
        }
        true
    }

    /// Returns whether the bytes of each item follow the former item's.
    pub(crate) fn is_ascending(&self) -> bool {
        self.stride == self.bytes as i64
    }

    /// Returns the records of all words, which follow each other.
    fn cells<'a>(&self, region: &Region, items: u32) -> &'a mut [Cells] {
        let words = self.bytes / 4 * u64::from(items);
        // SAFETY: the region has a cell for each of its words, which nothing else uses now.
        unsafe {
            let first = region.face.cells().add((self.offset / 4) as usize);
            std::slice::from_raw_parts_mut(first, words as usize)
        }
    }

    /// Returns whether the words follow each other, and have no recent records: the usual case.
    pub(crate) fn is_untouched(&self, region: &Region, items: u32) -> bool {
        if !self.is_ascending() {
            return false;
        }
        let (is_recent, has_more) = Record::any(self.cells(region, items), self.past.bound);
        let is_kept = self.writes && has_more;
        !is_recent && !is_kept
    }

    /// Replaces the records of all words, which follow each other.
    pub(crate) fn replace(&self, region: &Region, items: u32, base: u32) {
        let cells = self.cells(region, items);
        let record = self.record.at(base);
        match (self.bytes, self.writes) {
            (8, true) => replace_all::<2>(cells, record, |cell, record| cell.write = record),
            (_, true) => replace_all::<1>(cells, record, |cell, record| cell.write = record),
            (8, false) => replace_all::<2>(cells, record, replace_read),
            (_, false) => replace_all::<1>(cells, record, replace_read),
        }
    }

    /// Returns whether all bytes are next to each other.
    fn is_dense(&self) -> bool {
        self.stride.unsigned_abs() == self.bytes
    }

    pub(crate) fn is_written(&self, region: &Region, items: u32) -> bool {
        let written = region.face.written();
        // SAFETY: the offsets are inside the region.
        let has =
            |offset: u64, bits: u8| unsafe { *written.add((offset / 8) as usize) & bits == bits };
        let bits = |offset: u64| if self.bytes == 8 { 0xff } else { 15 << (offset & 4) };
        if !self.is_dense() {
            let count = if self.stride == 0 { 1 } else { i64::from(items) };
            let mut offsets =
                (0..count).map(|item| (self.offset as i64 + self.stride * item) as u64);
            return offsets.all(|offset| has(offset, bits(offset)));
        }
        let (mut at, mut end) = (self.low, self.end);
        if at % 8 != 0 {
            if !has(at, 0xf0) {
                return false;
            }
            at += 4;
        }
        if end % 8 != 0 {
            end -= 4;
            if end >= at && !has(end, 15) {
                return false;
            }
        }
        let whole = (end.saturating_sub(at) / 8) as usize;
        // SAFETY: as above.
        let rest = unsafe { std::slice::from_raw_parts(written.add((at / 8) as usize), whole) };
        // SAFETY: eight bytes of any value are a number.
        let (before, words, behind) = unsafe { rest.align_to::<u64>() };
        words.iter().all(|bits| *bits == u64::MAX)
            && before.iter().chain(behind).all(|bits| *bits == 0xff)
    }

    pub(crate) fn mark(&self, region: &Region, items: u32) {
        if self.is_dense() {
            return region.mark(self.low, self.end - self.low);
        }
        for item in 0..i64::from(items) {
            region.mark((self.offset as i64 + self.stride * item) as u64, self.bytes);
        }
    }

    /// Returns the plan for writes of different bytes.
    pub(crate) fn plan_writes(&self, region: &Region, items: u32, base: u32) -> Option<Plan> {
        if self.is_untouched(region, items) {
            return Some(Plan::Replace);
        }
        let mut plan = Plan::Replace;
        let cells = region.face.cells();
        let is_right = self.all_words(items, |word| {
            // SAFETY: the region has a cell for each of its words.
            let cell = unsafe { &*cells.add(word.index) };
            let own = base + word.item;
            if cell.read.has_more() {
                // SAFETY: as above.
                let more = unsafe { &*region.more().add(word.index) };
                plan = Plan::Both;
                if !self.past.has(more.other_read, own) || !self.past.has(more.older_write, own) {
                    return false;
                }
            }
            self.past.has(cell.write, own) && self.past.has(cell.read, own)
        });
        is_right.then_some(plan)
    }

    /// Returns whether two items access the same bytes in two ranges.
    pub(crate) fn shares(&self, other: &Found) -> bool {
        if self.region != other.region || self.end <= other.low || other.end <= self.low {
            return false;
        }
        let step = self.stride.unsigned_abs();
        if self.stride != other.stride || step < self.bytes.max(other.bytes) {
            return true;
        }
        // The bytes of an item are the same item's in the other range, or no item's.
        let is_same = self.offset == other.offset && self.bytes == other.bytes;
        let between = other.offset.wrapping_sub(self.offset) as i64;
        let between = between.rem_euclid(self.stride.abs()) as u64;
        !is_same && (between < self.bytes || between + other.bytes > step)
    }
}

/// Replaces records of items that have `WORDS` words each. `record` is the first item's.
#[inline(always)]
fn replace_all<const WORDS: usize>(
    cells: &mut [Cells],
    mut record: Record,
    replace: impl Fn(&mut Cells, Record),
) {
    for words in cells.as_chunks_mut::<WORDS>().0 {
        words.iter_mut().for_each(|cell| replace(cell, record));
        record = record.successor();
    }
}

#[inline(always)]
fn replace_read(cell: &mut Cells, record: Record) {
    cell.read = record.with_more_of(cell.read);
}

impl Past {
    /// Returns the segments that are over for a region, before `first` or in `group`.
    pub(crate) fn new(first: u32, group: &Group, region: &Region) -> Past {
        let bound = region.face.past_end.get().max(first).max(region.face.first.get());
        let span = group.epoch_first.saturating_sub(group.first);
        Past { bound, group_first: group.first, span }
    }

    /// Returns whether a record is of an access that ended before, or of the same item.
    #[inline]
    pub(crate) fn has(&self, record: Record, own: u32) -> bool {
        self.has_all(record) || record.segment() == own
    }

    /// Returns whether a record is of an access that ended before.
    #[inline]
    pub(crate) fn has_all(&self, record: Record) -> bool {
        let segment = record.segment();
        segment < self.bound || segment.wrapping_sub(self.group_first) < self.span
    }
}
