//! The accesses of all items of a loop at one place of its code.

use super::group::Group;
use super::region::{Cells, Record, Region};
use super::seen::{Change, Common, Pair, Records, Seen, Words};

/// A range that is right so far: rows of items, usually one. A row's items access different words,
/// or all the same, and the rows' bytes are apart.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) region: *const Region,
    /// Offset in the region for the first item, and distance from item to item.
    pub(crate) offset: u64,
    pub(crate) stride: i64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
    /// Offset of the first row's first byte, and of the one behind the last.
    pub(crate) low: u64,
    pub(crate) end: u64,
    /// The same for all rows.
    pub(crate) hull: (u64, u64),
    /// Number of rows. The first one has the offsets above.
    pub(crate) rows: u64,
    /// Distance from row to row.
    pub(crate) distance: i64,
    /// Number of items from row to row. Without any, the rows are of the same items.
    pub(crate) row_items: u64,
    /// The record, without a segment.
    pub(crate) record: Record,
    pub(crate) past: Past,
    pub(crate) plan: Plan,
    /// Whether some words may have further records.
    pub(crate) has_more: bool,
    /// Whether all bytes are written.
    pub(crate) is_written: bool,
}

/// The change of records by a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Each record is replaced.
    Replace,
    /// Each record stays.
    Keep,
    /// Each record stays, and each word gets a second one.
    Second,
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
        let (first, last) = range.hull;
        for hull in &mut self.hulls {
            match hull {
                None => {
                    *hull = Some((range.region, first, last));
                    return false;
                }
                Some((region, low, end)) if *region == range.region => {
                    let meets = first < *end && *low < last;
                    (*low, *end) = (first.min(*low), last.max(*end));
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
    /// A place for a range.
    pub(crate) const NONE: Found = Found {
        region: std::ptr::null(),
        offset: 0,
        stride: 0,
        bytes: 0,
        writes: false,
        low: 0,
        end: 0,
        hull: (0, 0),
        rows: 0,
        distance: 0,
        row_items: 0,
        record: Record::NONE,
        past: Past { bound: 0, group_first: 0, span: 0 },
        plan: Plan::Both,
        has_more: false,
        is_written: false,
    };

    /// Returns the distances of all rows from the first.
    #[inline(always)]
    fn moves(&self) -> impl Iterator<Item = i64> {
        let distance = self.distance;
        (0..self.rows as i64).map(move |row| row * distance)
    }

    /// Calls `body` for the words of all items. Returns whether it has returned `true` for all.
    #[inline(always)]
    pub(crate) fn all_words(&self, items: u32, mut body: impl FnMut(Word) -> bool) -> bool {
        let [step, distance] = [self.stride, self.distance].map(|bytes| bytes / 4);
        let (mut row, words) = ((self.offset / 4) as i64, (self.bytes / 4) as i64);
        for number in 0..self.rows {
            let (mut first, before) = (row, (number * self.row_items) as u32);
            for item in 0..items {
                let mut index = first;
                loop {
                    if !body(Word { item: before + item, index: index as usize }) {
                        return false;
                    }
                    index += 1;
                    if index == first + words {
                        break;
                    }
                }
                first += step;
            }
            row += distance;
        }
        true
    }

    /// Returns the records of all words. `all` has the records of the region's words.
    #[inline]
    fn words<T: Records>(&self, all: *mut T, items: u32) -> Words {
        let [step, distance] = [self.stride, self.distance].map(|bytes| (bytes >> 2) as isize);
        Words {
            first: all.wrapping_add((self.offset / 4) as usize).cast(),
            items: items as usize,
            of_item: (self.bytes / 4) as usize,
            step,
            rows: self.rows,
            distance,
            row_items: self.row_items,
        }
    }

    /// Asks the CPU for the records of the first row, moved by some bytes, which the next check
    /// probably needs.
    #[inline]
    pub(crate) fn prefetch(&self, by: u64) {
        const LINE: usize = 64 / size_of::<Cells>();
        const MOST: usize = 8;
        if !self.is_dense() {
            return;
        }
        // SAFETY: the caller's range has a region.
        let cells = unsafe { (*self.region).face.cells() };
        let first = cells.wrapping_offset(self.low.wrapping_add(by) as isize / 4);
        let words = (self.end - self.low) as usize / 4;
        for line in 0..words.div_ceil(LINE).min(MOST) {
            prefetch(first.wrapping_add(line * LINE));
        }
    }

    /// Returns a summary of the records of all words. Notes whether words have further records.
    pub(crate) fn see(&mut self, region: &Region, items: u32) -> Seen {
        let seen = self.words(region.face.cells(), items).see();
        self.has_more = seen.any.has_more();
        seen
    }

    /// Returns whether all accesses in the records of the words are over: the usual case.
    #[inline]
    pub(crate) fn is_over(&self, seen: &Seen, region: &Region, items: u32) -> bool {
        seen.are_below(self.past.bound)
            || self.past.span > 0 && !self.is_recent_in_group(region, items)
    }

    /// Returns whether an access is not over, where the group may have accessed the words before
    /// its last barrier.
    #[cold]
    fn is_recent_in_group(&self, region: &Region, items: u32) -> bool {
        let mut recent = 0;
        let words = self.words(region.face.cells(), items);
        words.each(|_, cells| recent |= self.past.recent(cells));
        recent >> 63 == 1
    }

    /// Returns the plan for reads of words that have all been read the same way and whose writes
    /// are over; `None` if they have not. `base` is the segment of the first item. Reads with
    /// segments up to `older_end` are of groups that are over, and reads from `two_from` of the
    /// group since its last barrier.
    pub(crate) fn plan_next_reads(
        &self,
        region: &Region,
        (items, base): (u32, u32),
        (older_end, two_from): (u32, u32),
    ) -> Option<Plan> {
        let past = &self.past;
        let from = past.bound.max(past.group_first + past.span);
        let words = self.words(region.face.cells(), items);
        let (seen, common) = (words.see(), words.see_common());
        let are_between = |seen: &Seen, common: &Common, from: u32, end: u32| {
            common.earliest >= from && seen.latest[1] < end
        };
        let are_whole =
            |seen: &Seen, common: &Common| common.every.bytes() == 15 && !seen.any.is_atomic();
        if are_between(&seen, &common, past.bound, older_end) && are_whole(&seen, &common) {
            return Some(Plan::Keep);
        }
        if !are_between(&seen, &common, from, base) {
            return None;
        }
        if !self.has_more {
            return Some(Plan::Second);
        }
        if !common.every.has_more() {
            return None;
        }
        let more = self.words(region.more(), items);
        let (seen, common) = (more.see(), more.see_common());
        let stay = are_between(&seen, &common, two_from, u32::MAX) && are_whole(&seen, &common);
        stay.then_some(Plan::Keep)
    }

    /// Records second reads of all words, which have no further records.
    pub(crate) fn add_second(&self, region: &Region, items: u32, base: u32) {
        self.words(region.face.cells(), items).change(Change::TO_MORE);
        self.words(region.more(), items).change(Change::from_other_reads(self.record.at(base)));
    }

    /// Returns whether all accesses in further records of the words are over.
    fn is_more_over(&self, region: &Region, items: u32) -> bool {
        self.words(region.more(), items).see().are_below(self.past.bound)
    }

    /// Replaces the records of all words.
    pub(crate) fn replace(&self, region: &Region, items: u32, base: u32) {
        let first = self.record.at(base);
        let change =
            if self.writes { Change::from_writes(first) } else { Change::from_reads(first) };
        self.words(region.face.cells(), items).change(change);
        if self.writes && self.has_more {
            self.words(region.more(), items).change(Change::TO_NONE);
        }
    }

    /// Records reads by all items of rows, of words without recent or further records: two items
    /// stand for all of a row.
    pub(crate) fn replace_by_all(&self, region: &Region, items: u32, base: u32) {
        let first = self.record.at(base);
        let of_row = |row: u64| first.later((row * self.row_items) as u32);
        let cells = self.words(region.face.cells(), 1);
        cells.each(|row, [_, read]| *read = of_row(row).with_more(items > 1));
        if items > 1 {
            self.words(region.more(), 1).each(|row, [_, other]| *other = of_row(row).later(1));
        }
    }

    /// Returns whether all bytes are next to each other.
    fn is_dense(&self) -> bool {
        self.stride.unsigned_abs() == self.bytes
    }

    pub(crate) fn are_bytes_written(&self, region: &Region, items: u32) -> bool {
        if self.rows == 1 && self.is_dense() {
            return is_all_written(region, self.low, self.end);
        }
        // Words that all items read are often neighbours.
        if self.stride == 0 && self.distance.unsigned_abs() == self.bytes {
            let (low, end) = self.hull;
            return is_all_written(region, low, end);
        }
        if self.is_dense() {
            let is_written = |by| {
                let [low, end] = [self.low, self.end].map(|at| at.wrapping_add_signed(by));
                is_all_written(region, low, end)
            };
            return self.moves().all(is_written);
        }
        let written = region.face.written();
        let needed = if self.bytes == 8 { 0xff } else { 15 };
        let count = if self.stride == 0 { 1 } else { items };
        self.moves().all(|by| {
            let (mut bits, mut offset) = (needed, self.offset.wrapping_add_signed(by));
            for _ in 0..count {
                // SAFETY: the offsets are inside the region.
                bits &= unsafe { *written.add((offset / 8) as usize) } >> (offset & 4);
                offset = offset.wrapping_add_signed(self.stride);
            }
            bits == needed
        })
    }

    pub(crate) fn mark(&self, region: &Region, items: u32) {
        for by in self.moves() {
            if self.is_dense() {
                region.mark(self.low.wrapping_add_signed(by), self.end - self.low);
                continue;
            }
            for item in 0..i64::from(items) {
                region.mark((self.offset as i64 + by + self.stride * item) as u64, self.bytes);
            }
        }
    }

    /// Returns the plan for writes of different bytes.
    pub(crate) fn plan_writes(&mut self, region: &Region, items: u32, base: u32) -> Option<Plan> {
        let seen = self.see(region, items);
        let is_over = self.is_over(&seen, region, items);
        if is_over && (!self.has_more || self.is_more_over(region, items)) {
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

    /// Returns whether each item accesses the same words in two ranges.
    #[inline]
    pub(crate) fn has_same_words(&self, other: &Found) -> bool {
        self.offset == other.offset
            && self.region == other.region
            && (self.stride, self.bytes) == (other.stride, other.bytes)
            && (self.rows, self.distance) == (other.rows, other.distance)
    }

    /// Returns whether two items access the same bytes in two ranges.
    #[inline]
    pub(crate) fn shares(&self, other: &Found) -> bool {
        let [(low, end), (other_low, other_end)] = [self.hull, other.hull];
        let is_apart = self.region != other.region || end <= other_low || other_end <= low;
        // Two items have different words.
        let is_same = self.has_same_words(other) && self.stride != 0;
        !is_apart && !is_same && self.shares_rows(other)
    }

    /// Returns whether two items access the same bytes in two ranges of a region.
    fn shares_rows(&self, other: &Found) -> bool {
        let are_of_items = self.row_items > 0;
        self.moves().enumerate().any(|(row, by)| {
            other.moves().enumerate().any(|(other_row, other_by)| {
                self.shares_row(other, other_by - by, !are_of_items || row == other_row)
            })
        })
    }

    /// Returns whether two items access the same bytes in the first row of this range, and in the
    /// first row of another one, moved. `are_same` states that the rows are of the same items.
    #[inline]
    fn shares_row(&self, other: &Found, by: i64, are_same: bool) -> bool {
        let [offset, low, end] =
            [other.offset, other.low, other.end].map(|at| at.wrapping_add_signed(by) as i64);
        if self.end as i64 <= low || end <= self.low as i64 {
            return false;
        }
        let step = self.stride.unsigned_abs();
        if self.stride != other.stride || step < self.bytes.max(other.bytes) {
            return true;
        }
        // The bytes of an item are the same item's in the other range, or no item's.
        let between = offset - self.offset as i64;
        let is_same = are_same && between == 0 && self.bytes == other.bytes;
        let between = between.rem_euclid(self.stride.abs()) as u64;
        !is_same && (between < self.bytes || between + other.bytes > step)
    }
}

/// Asks the CPU for memory at an address, which may be wrong.
#[inline(always)]
fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no effect but on caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Returns whether all bytes of words are written.
fn is_all_written(region: &Region, low: u64, end: u64) -> bool {
    let written = region.face.written();
    // Bits of 64 bytes from the eight around an offset. The shadow ends 16 bytes behind the last.
    let bits = |at: u64| {
        // SAFETY: the offset is inside the region.
        let bits = unsafe { written.add((at / 8) as usize).cast::<u64>().read_unaligned() };
        u64::from_le(bits)
    };
    let mut at = low;
    if !at.is_multiple_of(8) {
        // The first word is the second one of eight bytes.
        if bits(at) & 0xf0 != 0xf0 {
            return false;
        }
        at += 4;
    }
    while end - at >= 64 {
        if bits(at) != u64::MAX {
            return false;
        }
        at += 64;
    }
    let rest = (1 << (end - at)) - 1;
    rest == 0 || bits(at) & rest == rest
}

impl Past {
    /// Returns the segments that are over for a region, before `first` or in `group`.
    pub(crate) fn new(first: u32, group: &Group, region: &Region) -> Past {
        let bound = region.face.past_end.get().max(first).max(region.face.first.get());
        let span = group.epoch_first.saturating_sub(group.first);
        Past { bound, group_first: group.first, span }
    }

    /// Returns the segment before which all are over.
    #[inline]
    pub(crate) fn bound(&self) -> u32 {
        self.bound
    }

    /// Returns whether a record is of an access that ended before, or of the same item.
    #[inline]
    pub(crate) fn has(&self, record: Record, own: u32) -> bool {
        self.has_all(record) || record.segment() == own
    }

    /// Returns a number whose highest bit is set if an access of the word is not over: the contrary
    /// of [`Past::has_all`] without branches, for loops that the compiler vectorises.
    #[inline(always)]
    fn recent(&self, [write, read]: &Pair) -> u64 {
        let (bound, first) = (u64::from(self.bound), u64::from(self.group_first));
        let end = first + u64::from(self.span);
        let recent = |segment: u64| {
            let is_in_group = !segment.wrapping_sub(first) & segment.wrapping_sub(end);
            !segment.wrapping_sub(bound) & !is_in_group
        };
        recent(write.segment().into()) | recent(read.segment().into())
    }

    /// Returns whether a record is of an access that ended before.
    #[inline]
    pub(crate) fn has_all(&self, record: Record) -> bool {
        let segment = record.segment();
        segment < self.bound || segment.wrapping_sub(self.group_first) < self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_accesses_are_found_without_branches() {
        let segments = [0, 1, 2, 3, 9, 10, 11, 12, 14, 15, 16, 40, u32::MAX];
        for (bound, group_first, span) in [(1, 0, 0), (10, 10, 0), (10, 10, 5), (3, 10, 5)] {
            let past = Past { bound, group_first, span };
            for write in segments {
                for read in segments {
                    let [write, read] = [write, read].map(|it| Record::new(it, 15, true, 1 << 20));
                    let is_over = past.has_all(write) && past.has_all(read);
                    assert_eq!(past.recent(&[write, read]) >> 63 == 0, is_over);
                }
            }
        }
    }
}
