//! Checks of the accesses of all items of a loop at once.
//!
//! The pass of `jit/work-items` finds accesses at addresses with a fixed distance from item to
//! item, and calls [`check`] before the loop. If all accesses are right, they are recorded, and the
//! loop runs without its own checks. Otherwise nothing is recorded: the loop checks each access.

use super::found::{Found, Hulls, Past, Plan};
use super::group::Mode;
use super::kept::{Known, Stamp};
use super::region::{Cells, MoreCells, Record, Region};
use super::session::Session;
use super::site::Site;

/// An access by all items of a loop. Must match `jit/work-items/src/checked_ranges.rs`.
#[repr(C)]
pub(crate) struct Range {
    site: *mut Site,
    /// Address for the first item, and distance from item to item in bytes.
    address: u64,
    stride: i64,
    /// Number of bytes, 4 or 8, and [`WRITES`].
    shape: u64,
    /// The variable in which the access must stay; no size without one.
    start: u64,
    size: u64,
}

const WRITES: u64 = 1 << 8;
/// Number of ranges of a loop that are compared with each other.
const FEW: usize = 4;

/// Checks ranges. `first` is the index in its group of the first of `items` items. `is_known` is 0
/// if an item may take another branch than expected, or if its addresses have another distance.
/// Returns 1 if the loop may run without checks.
pub(crate) unsafe extern "C" fn check(
    ranges: *const Range,
    count: u32,
    items: u32,
    is_known: u32,
    first: u64,
) -> u32 {
    if is_known == 0 || items == 0 {
        return 0;
    }
    // SAFETY: no other reference is in use while checked code runs.
    let Some(session) = (unsafe { Session::running() }) else { return 1 };
    // SAFETY: the pass has filled the table.
    let ranges = unsafe { std::slice::from_raw_parts(ranges, count as usize) };
    u32::from(session.check_ranges(ranges, items, first as u32))
}

impl Session {
    fn check_ranges(&mut self, ranges: &[Range], items: u32, first: u32) -> bool {
        if self.group.mode != Mode::ItemLoops {
            return false;
        }
        let base = self.group.base + first;
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let keeps_two = self.keeps_two_reads();
        let stamp = Stamp {
            epoch: self.group.epoch_first,
            older_end: self.state.older_end,
            changes: self.changes,
            version: self.checker.version(),
        };
        let (mut hulls, mut has_writes) = (Hulls::default(), false);
        let is_right = ranges.iter().all(|range| {
            let known = Known {
                site: range.site,
                address: range.address,
                stride: range.stride,
                items,
                stamp,
            };
            if range.shape & WRITES == 0 && *self.kept.place(&known) == known {
                return true;
            }
            let Some(mut one) = self.find_range(range, items, base) else { return false };
            if one.plan == Plan::Keep {
                // A write of the same bytes in this loop races with the recorded reads.
                if stamp.epoch != 0 {
                    *self.kept.place(&known) = known;
                }
                return true;
            }
            has_writes |= one.writes;
            if hulls.add(&one) {
                let is_opposed = |other: &Found| one.writes || other.writes || !keeps_two;
                let may_oppose = has_writes || !keeps_two;
                if may_oppose && found.iter().any(|other| is_opposed(other) && one.shares(other)) {
                    return false;
                }
                // With many ranges, the comparison takes longer than careful records.
                if found.len() > FEW || found.iter().any(|other| one.shares(other)) {
                    one.plan = Plan::Both;
                }
            }
            found.push(one);
            true
        });
        if is_right {
            found.iter().for_each(|range| self.record(range, items, base));
        }
        self.found = found;
        is_right
    }

    /// Returns a range whose accesses are right and race with no recorded access.
    fn find_range(&self, range: &Range, items: u32, base: u32) -> Option<Found> {
        let (bytes, writes) = (range.shape & !WRITES, range.shape & WRITES != 0);
        // SAFETY: the site is a variable of the image, which only checked code uses.
        let site = unsafe { &*range.site };
        if site.version != self.checker.version() || site.face.is_null() {
            return None;
        }
        // SAFETY: the session holds the regions that sites of its version know.
        let region = unsafe { &*site.region };
        let stride = range.stride;
        let offset = range.address.wrapping_sub(region.start);
        let ends = region.face.ends(bytes);
        if offset >= ends {
            return None;
        }
        let last = stride.checked_mul(i64::from(items) - 1)?.checked_add_unsigned(offset)?;
        let last = u64::try_from(last).ok()?;
        let (low, high) = (last.min(offset), last.max(offset));
        let is_inside = high < ends;
        let is_aligned = (offset | stride as u64) & (bytes - 1) == 0;
        let in_variable = (region.start + low).wrapping_sub(range.start);
        let is_in_variable = range.size == 0
            || in_variable < range.size && range.size - in_variable >= high - low + bytes;
        // Several items may not write the same bytes.
        let is_apart = !writes || stride != 0 || items == 1;
        if !is_inside || !is_aligned || !is_in_variable || !is_apart {
            return None;
        }
        let mut found = Found {
            region,
            offset,
            stride,
            bytes,
            writes,
            low,
            end: high + bytes,
            record: site.record,
            past: Past::new(self.first, &self.group, region),
            plan: Plan::Both,
        };
        if !writes && !found.is_written(region, items) {
            return None;
        }
        found.plan = match (writes, stride) {
            (true, _) => found.plan_writes(region, items, base)?,
            (false, 0) => self.plan_read_by_all(&found, region, items)?,
            (false, _) => self.plan_reads(&found, region, items, base)?,
        };
        Some(found)
    }

    /// Returns the plan for reads of different bytes.
    fn plan_reads(&self, range: &Found, region: &Region, items: u32, base: u32) -> Option<Plan> {
        if range.is_untouched(region, items) {
            return Some(Plan::Replace);
        }
        let (mut replaces, mut keeps) = (false, false);
        let (cells, keeps_two) = (region.face.cells(), self.keeps_two_reads());
        let is_right = range.all_words(items, |word| {
            // SAFETY: the region has a cell for each of its words.
            let cell = unsafe { &*cells.add(word.index) };
            let own = base + word.item;
            if range.past.has(cell.read, own) {
                replaces = true;
            } else if self.stays(cell.read, region, word.index) {
                keeps = true;
            } else {
                // SAFETY: as above.
                let other = unsafe { (*region.more().add(word.index)).other_read };
                (replaces, keeps) = (true, true);
                if !keeps_two || !range.past.has(other, own) {
                    return false;
                }
            }
            range.past.has(cell.write, own)
        });
        if !is_right {
            return None;
        }
        Some(match (replaces, keeps) {
            (_, false) => Plan::Replace,
            (false, true) => Plan::Keep,
            (true, true) => Plan::Both,
        })
    }

    /// Returns the plan for reads of the same bytes by all items.
    fn plan_read_by_all(&self, range: &Found, region: &Region, items: u32) -> Option<Plan> {
        let mut keeps = true;
        let is_right = range.all_words(1, |word| {
            // SAFETY: the region has a cell for each of its words.
            let cell = unsafe { &*region.face.cells().add(word.index) };
            // A write by one of the items races with the reads by others.
            if !range.past.has_all(cell.write) {
                return false;
            }
            let is_over = range.past.has_all(cell.read);
            if !is_over && self.stays(cell.read, region, word.index) {
                return true;
            }
            keeps = false;
            // SAFETY: as above.
            let other = unsafe { (*region.more().add(word.index)).other_read };
            match items {
                1 => is_over,
                _ => self.keeps_two_reads() && range.past.has_all(other),
            }
        });
        is_right.then_some(if keeps { Plan::Keep } else { Plan::Both })
    }

    /// Returns whether a record of a read stays, because any write that races with a new read also
    /// races with recorded reads.
    fn stays(&self, read: Record, region: &Region, index: usize) -> bool {
        let is_whole = |record: Record| record.bytes() == 15 && !record.is_atomic();
        if read.segment() < self.state.older_end && is_whole(read) {
            return true;
        }
        // SAFETY: the region has a cell for each of its words.
        let other = unsafe { (*region.more().add(index)).other_read };
        other.segment() >= self.state.two_from && is_whole(other)
    }

    /// Records the accesses of a range.
    fn record(&self, range: &Found, items: u32, base: u32) {
        // SAFETY: the session holds the regions that sites know.
        let region = unsafe { &*range.region };
        if range.writes {
            range.mark(region, items);
        }
        if range.plan == Plan::Keep {
            return;
        }
        if !range.writes && range.stride == 0 {
            return self.record_read_by_all(range, region, items, base);
        }
        if range.plan == Plan::Replace && range.is_ascending() {
            return range.replace(region, items, base);
        }
        let cells = region.face.cells();
        range.all_words(items, |word| {
            let own = base + word.item;
            let new = range.record.at(own);
            // SAFETY: the region has a cell for each of its words.
            let cell = unsafe { &mut *cells.add(word.index) };
            if range.writes {
                cell.write = new;
                if range.plan == Plan::Both && cell.read.has_more() {
                    cell.read = cell.read.with_more(false);
                    // SAFETY: as above.
                    unsafe { *region.more().add(word.index) = MoreCells::NONE };
                }
            } else if range.plan == Plan::Replace || range.past.has(cell.read, own) {
                cell.read = new.with_more(cell.read.has_more());
            } else if !self.stays(cell.read, region, word.index) {
                self.record_second(region, cell, word.index, new);
            }
            true
        });
    }

    /// Records a read of the same bytes by all items: two of them stand for all.
    fn record_read_by_all(&self, range: &Found, region: &Region, items: u32, base: u32) {
        range.all_words(1, |word| {
            // SAFETY: the region has a cell for each of its words.
            let cell = unsafe { &mut *region.face.cells().add(word.index) };
            let mut other = base;
            if range.past.has_all(cell.read) {
                cell.read = range.record.at(base).with_more(cell.read.has_more());
                other = base + 1;
            } else if self.stays(cell.read, region, word.index) {
                return true;
            } else if cell.read.segment() == base {
                other = base + 1;
            }
            if items > 1 {
                self.record_second(region, cell, word.index, range.record.at(other));
            }
            true
        });
    }

    fn record_second(&self, region: &Region, cell: &mut Cells, index: usize, new: Record) {
        // SAFETY: the region has a cell for each of its words.
        let more: &mut MoreCells = unsafe { &mut *region.more().add(index) };
        more.other_read = new;
        cell.read = cell.read.with_more(true);
    }
}
