//! Accesses of the same bytes by several items.
//!
//! A word has records of two writes and two reads. They are chosen so that any later access that
//! races with an access of this launch races with a recorded one:
//!
//! - A read takes the place of reads of its group that are ordered before it. Otherwise two reads
//!   by different items are kept: a write by either of them races with the other.
//! - A write takes the place of the last write, which it races with otherwise. Two atomic writes
//!   are both kept.

use super::group::SUBGROUP_ITEMS;
use super::order::Access;
use super::region::{Cells, MoreCells, Record, Region};
use super::report::{What, at, place_in};
use super::session::Session;

/// An access of bytes in a region.
#[derive(Clone, Copy)]
pub(crate) struct Touch {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
    pub(crate) is_atomic: bool,
    pub(crate) place: u32,
}

/// Relation of an earlier access to the current one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// No access of this launch, or before a barrier of the grid.
    Gone,
    /// An access by the current item, or ordered before the current one in its group.
    Before,
    /// An unordered access by an item of the same sub-group.
    Near,
    /// An unordered access by another item.
    Unordered,
    /// An access by another group, ordered by atomic operations.
    Ordered,
}

impl Session {
    /// Records an access, and reports its races.
    #[cold]
    #[inline(never)]
    pub(crate) fn touch(&mut self, region: &Region, touch: Touch) {
        let (mut shift, cells) = (region.shift(), region.cells());
        if cells.is_null() {
            return;
        }
        let segment = self.segment();
        let end = touch.offset + touch.bytes;
        let mut at = touch.offset;
        while at < end {
            let word = at >> shift << shift;
            let next = (word + (1 << shift)).min(end);
            let bytes = match shift {
                0 => 15,
                _ => (1 << (next - word)) - (1 << (at - word)),
            };
            let new = Record::new(segment, bytes, touch.is_atomic, touch.place);
            // SAFETY: the region has a cell for each of its words.
            let (cell, more) = unsafe {
                let index = (at >> shift) as usize;
                (&mut *region.cells().add(index), &mut *region.more().add(index))
            };
            if shift != 0 && self.needs_bytes(region, cell, more, new) {
                region.make_fine();
                if region.cells().is_null() {
                    return;
                }
                shift = 0;
                continue;
            }
            self.touch_cell(region, cell, more, new, touch, at);
            at = next;
        }
    }

    /// Records an atomic write of a word that has only atomic writes of this launch, as
    /// [`Session::touch`] does. Returns `false` if more is to be done.
    pub(crate) fn touch_atomically(&mut self, region: &Region, touch: Touch) -> bool {
        let is_word = touch.bytes == 4 && touch.offset.is_multiple_of(4) && region.shift() == 2;
        let cells = region.cells();
        if cells.is_null() || !is_word || !touch.writes || !self.keeps_two_reads() {
            return false;
        }
        let index = (touch.offset / 4) as usize;
        // SAFETY: the region has a cell for each of its words.
        let (cell, more) = unsafe { (&mut *cells.add(index), &mut *region.more().add(index)) };
        let new = Record::new(self.segment(), 15, true, touch.place);
        let first = self.first.max(region.face.first.get());
        let is_over = |old: Record| {
            let segment = old.segment();
            segment < first || segment == new.segment() || self.group.is_before_barrier(segment)
        };
        let is_atomic = |old: Record| old.segment() < first || old.is_atomic() && old.bytes() == 15;
        let reads = [cell.read, more.other_read].map(Record::segment);
        if reads.into_iter().any(|read| read >= first)
            || !is_atomic(cell.write)
            || !is_atomic(more.older_write)
        {
            return false;
        }
        if !is_over(cell.write) {
            more.older_write = cell.write;
        } else if is_over(more.older_write) {
            more.older_write = Record::default();
        }
        cell.write = new;
        cell.read = cell.read.with_more(more.is_used());
        true
    }

    /// Returns whether other items have accessed other bytes of the same word.
    fn needs_bytes(&self, region: &Region, cell: &Cells, more: &MoreCells, new: Record) -> bool {
        [cell.write, cell.read, more.older_write, more.other_read].into_iter().any(|old| {
            old.bytes() != new.bytes()
                && old.segment() != new.segment()
                && old.segment() >= self.first.max(region.face.first.get())
        })
    }

    fn touch_cell(
        &mut self,
        region: &Region,
        cell: &mut Cells,
        more: &mut MoreCells,
        new: Record,
        touch: Touch,
        offset: u64,
    ) {
        let relation = |session: &Session, old: Record| session.relation(region, old, new);
        let relations = [cell.write, more.older_write, cell.read, more.other_read]
            .map(|old| (old, relation(self, old)));
        let writes = relations[..2].iter().map(|pair| (pair, true));
        let reads = relations[2..].iter().map(|pair| (pair, false));
        let opposed = writes.chain(reads.filter(|_| touch.writes));
        for ((old, relation), wrote) in opposed {
            let is_unordered = matches!(relation, Relation::Near | Relation::Unordered);
            let overlaps = old.bytes() & new.bytes() != 0;
            if is_unordered && overlaps && !(old.is_atomic() && new.is_atomic()) {
                self.report_race(region, *old, wrote, touch, offset);
                break;
            }
        }
        let [(write, of_write), (_, of_older), (read, of_read), (_, of_other)] = relations;
        if touch.writes {
            let both_atomic = write.is_atomic() && new.is_atomic();
            if both_atomic && !matches!(of_write, Relation::Gone | Relation::Before) {
                more.older_write = write;
            } else if matches!(of_older, Relation::Gone | Relation::Before) {
                more.older_write = Record::default();
            }
            cell.write = new;
            cell.read = read.with_more(more.is_used());
            return;
        }
        let is_replaced = |relation| matches!(relation, Relation::Gone | Relation::Before);
        if is_replaced(of_read) {
            let is_same = read.segment() == new.segment();
            cell.read = if is_same { new.with_bytes(read.bytes()) } else { new };
            if is_replaced(of_other) {
                more.other_read = Record::default();
            }
        } else if is_replaced(of_other)
            || more.other_read.is_atomic() && !new.is_atomic()
            || of_other != Relation::Near && of_read != Relation::Near && self.group.has_exchanges
        {
            more.other_read = new;
        }
        cell.read = cell.read.with_more(more.is_used());
    }

    fn relation(&self, region: &Region, old: Record, new: Record) -> Relation {
        let segment = old.segment();
        if segment == 0 || segment < self.first.max(region.face.first.get()) {
            return Relation::Gone;
        }
        if segment == new.segment() || self.group.is_before_barrier(segment) {
            return Relation::Before;
        }
        let (block, item) = self.block_of(segment);
        let (group, own) = (&*self.group, self.item());
        let is_before = || self.order.is_before(Access { record: old, block, item }, group, own);
        if block.group != group.number {
            return if is_before() { Relation::Ordered } else { Relation::Unordered };
        }
        let is_near = item / SUBGROUP_ITEMS == own / SUBGROUP_ITEMS && group.has_exchanges;
        let lane = (item % SUBGROUP_ITEMS) as usize;
        let is_exchanged =
            || is_near && group.exchanged(own).get(lane).is_some_and(|end| segment < *end);
        if item == own || block.epoch < group.epoch || is_exchanged() || is_before() {
            return Relation::Before;
        }
        if is_near { Relation::Near } else { Relation::Unordered }
    }

    #[cold]
    fn report_race(
        &mut self,
        region: &Region,
        old: Record,
        wrote: bool,
        touch: Touch,
        offset: u64,
    ) {
        self.report(What::Race, [touch.place, old.place()], |session| {
            let (block, item) = session.block_of(old.segment());
            let verb = match (region.is_freed.get(), touch.writes) {
                (true, _) => "frees",
                (false, true) => "writes",
                (false, false) => "reads",
            };
            let atomically = |is| if is { " atomically" } else { "" };
            let between = match block.group == session.group.number {
                true => "no barrier is between them",
                false => "nothing orders the groups of a launch",
            };
            let other = if wrote { "has written" } else { "has read" };
            format!(
                "{} {verb}{} {} bytes that {} {other}{}: {between}; {verb} {}; {other} {}; {}{}",
                session.who(),
                atomically(touch.is_atomic),
                touch.bytes,
                session.named(block.group, item),
                atomically(old.is_atomic()),
                at(touch.place),
                at(old.place()),
                place_in(region, region.start + touch.offset, touch.bytes),
                value(region, offset - (offset - touch.offset), touch.bytes),
            )
        });
    }
}

/// Returns the present contents of bytes, as a hexadecimal number.
pub(crate) fn value(region: &Region, offset: u64, bytes: u64) -> String {
    if bytes > 8 {
        return String::new();
    }
    let mut word = [0; 8];
    let from = (region.start + offset) as *const u8;
    // SAFETY: the bytes are inside a live region.
    unsafe { word.as_mut_ptr().copy_from_nonoverlapping(from, bytes as usize) };
    format!(", which hold {:#x}", u64::from_le_bytes(word))
}
