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

impl Range {
    /// Returns whether another range is of the same access, at another address.
    #[inline]
    fn is_like(&self, other: &Range) -> bool {
        self.site == other.site
            && self.stride == other.stride
            && self.shape == other.shape
            && self.start == other.start
            && self.size == other.size
    }

    /// Returns the number of ranges that are rows of one: the first of `ranges`, and following ones
    /// of the same access, as in an unrolled loop. Also returns the distance from row to row.
    #[inline]
    fn rows(ranges: &[Range], items: u32) -> (u32, i64) {
        let [first, second, rest @ ..] = ranges else { return (1, 0) };
        if !first.is_like(second) {
            return (1, 0);
        }
        let distance = second.address.wrapping_sub(first.address);
        let last = first.stride.unsigned_abs().saturating_mul(u64::from(items) - 1);
        let bytes = last.saturating_add(first.shape & !WRITES);
        if (distance as i64).unsigned_abs() < bytes {
            return (1, 0);
        }
        let (mut count, mut next) = (2, second.address.wrapping_add(distance));
        for range in rest {
            if range.address != next || !first.is_like(range) {
                break;
            }
            (count, next) = (count + 1, next.wrapping_add(distance));
        }
        (count, distance as i64)
    }
}

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
    u32::from(session.check_ranges::<false>(ranges, (1, &[]), items, first as u32))
}

/// Checks the ranges of all `rows` rows of a group, as [`check`] does for one row of `items` items.
/// `distances` are the ranges' distances from row to row.
pub(crate) unsafe extern "C" fn check_rows(
    ranges: *const Range,
    distances: *const i64,
    count: u32,
    items: u32,
    rows: u32,
    is_known: u32,
) -> u32 {
    if is_known == 0 || items == 0 || rows == 0 {
        return 0;
    }
    // SAFETY: as in `check`.
    let Some(session) = (unsafe { Session::running() }) else { return 1 };
    // SAFETY: the pass has filled both tables.
    let (ranges, distances) = unsafe {
        let count = count as usize;
        (std::slice::from_raw_parts(ranges, count), std::slice::from_raw_parts(distances, count))
    };
    u32::from(session.check_ranges::<true>(ranges, (rows, distances), items, 0))
}

impl Session {
    /// Checks ranges of `items` items: of one row, or `OF_ROWS` of a group, with distances from row
    /// to row.
    fn check_ranges<const OF_ROWS: bool>(
        &mut self,
        ranges: &[Range],
        (rows, distances): (u32, &[i64]),
        items: u32,
        first: u32,
    ) -> bool {
        let site = ranges.first().map_or(0, |range| range.site as usize);
        if self.group.mode != Mode::ItemLoops || self.order.begin_loop(site) {
            return false;
        }
        let base = self.group.base + first;
        let mut all = std::mem::take(&mut self.found);
        if all.len() < ranges.len() {
            all.resize(ranges.len(), Found::NONE);
        }
        let mut count = 0;
        let keeps_two = self.keeps_two_reads();
        let stamp = Stamp {
            epoch: self.group.epoch_first,
            older_end: self.state.older_end,
            changes: self.changes,
            version: self.checker.version(),
        };
        let may_be_known = self.kept.stamp == stamp;
        let (mut hulls, mut has_writes) = (Hulls::default(), false);
        // Rows of a group are of different items, and rows of an unrolled loop are not.
        let row_items = if OF_ROWS { items } else { 0 };
        let mut is_next_right = |range: &Range, (rows, distance): (u32, i64)| {
            let known = Known {
                site: range.site,
                address: range.address,
                stride: range.stride,
                distance,
                items,
                rows,
                row_items,
                stamp,
            };
            if may_be_known && range.shape & WRITES == 0 && *self.kept.place(&known) == known {
                return true;
            }
            let (found, rest) = all.split_at_mut(count);
            let one = &mut rest[0];
            if !self.find_range(range, (rows, distance, row_items), items, one) {
                return false;
            }
            // SAFETY: the session holds the regions that sites know.
            if !unsafe { &*one.region }.is_shared
                && let Some(next) = self.kept.next_address(range.site, range.address)
            {
                one.prefetch(next.wrapping_sub(range.address));
            }
            let mut reads = found.iter().take(FEW).filter(|_| one.writes);
            // A write of words that the items have read needs no second look.
            let read = reads.find(|it| it.has_same_words(one) && !it.writes && !it.has_more);
            let plan = match read {
                Some(Found { plan: Plan::Replace, .. }) => {
                    (one.has_more, one.is_written) = (false, true);
                    Some(Plan::Replace)
                }
                _ => self.plan(one, items, base),
            };
            let Some(plan) = plan else { return false };
            one.plan = plan;
            if plan == Plan::Keep {
                // A write of the same bytes in this loop races with the recorded reads.
                if stamp.epoch != 0 {
                    *self.kept.place(&known) = known;
                    self.kept.stamp = stamp;
                }
                return true;
            }
            has_writes |= one.writes;
            if hulls.add(one) {
                // With many ranges, the comparison takes longer than careful records.
                let is_many = found.len() > FEW;
                let may_oppose = has_writes || !keeps_two;
                let mut shares = is_many;
                for other in found.iter().filter(|_| may_oppose || !is_many) {
                    if one.shares(other) {
                        if one.writes || other.writes || !keeps_two {
                            return false;
                        }
                        shares = true;
                    }
                }
                if shares {
                    one.plan = Plan::Both;
                }
            }
            count += 1;
            true
        };
        let (mut rest, mut is_right) = (ranges, true);
        let mut distances = distances.iter();
        while let [range, ..] = rest
            && is_right
        {
            let (taken, rows) = match distances.next() {
                Some(distance) if OF_ROWS => (1, (rows, *distance)),
                _ => {
                    let (rows, distance) = Range::rows(rest, items);
                    (rows as usize, (rows, distance))
                }
            };
            rest = &rest[taken..];
            is_right = is_next_right(range, rows);
        }
        if is_right {
            all[..count].iter().for_each(|range| self.record(range, items, base));
        }
        self.found = all;
        is_right
    }

    /// Finds the memory of a range of rows. Returns whether the accesses are inside, aligned, and
    /// of written bytes.
    #[inline(always)]
    fn find_range(
        &self,
        range: &Range,
        (rows, distance, row_items): (u32, i64, u32),
        items: u32,
        found: &mut Found,
    ) -> bool {
        let (bytes, writes) = (range.shape & !WRITES, range.shape & WRITES != 0);
        // SAFETY: the site is a variable of the image, which only checked code uses.
        let site = unsafe { &*range.site };
        if site.version != self.checker.version() || site.face.is_null() {
            return false;
        }
        // SAFETY: the session holds the regions that sites of its version know.
        let region = unsafe { &*site.region };
        let stride = range.stride;
        let offset = range.address.wrapping_sub(region.start);
        let ends = region.face.ends(bytes);
        if offset >= ends {
            return false;
        }
        let distance_to_last = stride.checked_mul(i64::from(items) - 1);
        let last = distance_to_last.and_then(|it| offset.checked_add_signed(it));
        let Some(last) = last else { return false };
        let (low, high) = (last.min(offset), last.max(offset));
        let (mut first, mut most) = (low, high);
        if rows > 1 {
            let moved = distance.checked_mul(i64::from(rows) - 1);
            let ends = [low, high].map(|end| end.checked_add_signed(moved?));
            let [Some(last_low), Some(last_high)] = ends else { return false };
            (first, most) = (first.min(last_low), most.max(last_high));
        }
        let is_inside = most < ends;
        let is_aligned = site.is_aligned(range.address | stride as u64 | distance as u64);
        let in_variable = (region.start + first).wrapping_sub(range.start);
        let is_in_variable = range.size == 0
            || in_variable < range.size && range.size - in_variable >= most - first + bytes;
        // Several items may not write the same bytes, and rows are apart, or their items alternate.
        let (in_row, in_rows) = (high - low + bytes, distance.unsigned_abs());
        let alternate = || {
            let last = in_rows.checked_mul(u64::from(rows) - 1);
            last.is_some_and(|last| last + bytes <= stride.unsigned_abs())
        };
        let is_apart = (!writes || stride != 0 || items == 1)
            && (row_items == 0 || rows == 1 || in_rows >= in_row || alternate());
        if !is_inside || !is_aligned || !is_in_variable || !is_apart {
            return false;
        }
        *found = Found {
            region,
            offset,
            stride,
            bytes,
            writes,
            low,
            end: high + bytes,
            hull: (first, most + bytes),
            rows: rows.into(),
            distance,
            row_items: row_items.into(),
            record: site.record,
            past: Past::new(self.first, &self.group, region),
            plan: Plan::Both,
            has_more: true,
            is_written: false,
        };
        found.is_written = !writes && found.are_bytes_written(region, items);
        writes || found.is_written
    }

    /// Returns the change of records by a range; `None` if an access races with a recorded one.
    #[inline]
    fn plan(&self, range: &mut Found, items: u32, base: u32) -> Option<Plan> {
        // SAFETY: the session holds the regions that sites know.
        let region = unsafe { &*range.region };
        match (range.writes, range.stride) {
            (true, _) => range.plan_writes(region, items, base),
            (false, 0) => self.plan_read_by_all(range, region, items),
            (false, _) => self.plan_reads(range, region, items, base),
        }
    }

    /// Returns the plan for reads of different bytes.
    fn plan_reads(
        &self,
        range: &mut Found,
        region: &Region,
        items: u32,
        base: u32,
    ) -> Option<Plan> {
        let seen = range.see(region, items);
        if range.is_over(&seen, region, items) {
            return Some(Plan::Replace);
        }
        if seen.latest[0] < range.past.bound() && self.keeps_two_reads() {
            let bounds = (self.state.older_end, self.state.two_from);
            let plan = range.plan_next_reads(region, (items, base), bounds);
            if plan.is_some() {
                return plan;
            }
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
    fn plan_read_by_all(&self, range: &mut Found, region: &Region, items: u32) -> Option<Plan> {
        let seen = range.see(region, 1);
        let is_over = range.is_over(&seen, region, 1);
        if is_over && !range.has_more && (items == 1 || self.keeps_two_reads()) {
            return Some(Plan::Replace);
        }
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
        if read.segment() < self.state.older_end && read.is_whole() {
            return true;
        }
        // SAFETY: the region has a cell for each of its words.
        let other = unsafe { (*region.more().add(index)).other_read };
        other.segment() >= self.state.two_from && other.is_whole()
    }

    /// Records the accesses of a range.
    fn record(&self, range: &Found, items: u32, base: u32) {
        // SAFETY: the session holds the regions that sites know.
        let region = unsafe { &*range.region };
        if range.writes && !range.is_written {
            range.mark(region, items);
        }
        if range.plan == Plan::Keep {
            return;
        }
        if !range.writes && range.stride == 0 {
            return match range.plan {
                Plan::Replace => range.replace_by_all(region, items, base),
                _ => self.record_read_by_all(range, region, items, base),
            };
        }
        match range.plan {
            Plan::Replace => return range.replace(region, items, base),
            Plan::Second => return range.add_second(region, items, base),
            Plan::Keep | Plan::Both => {}
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
            } else if range.past.has(cell.read, own) {
                cell.read = new.with_more(cell.read.has_more());
            } else if !self.stays(cell.read, region, word.index) {
                self.record_second(region, cell, word.index, new);
            }
            true
        });
    }

    /// Records a read of the same bytes by all items of a row: two of them stand for all.
    fn record_read_by_all(&self, range: &Found, region: &Region, items: u32, base: u32) {
        range.all_words(1, |word| {
            let base = base + word.item;
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
