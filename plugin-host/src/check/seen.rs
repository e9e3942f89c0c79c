//! The records of all words of a range: their summary and their changes.
//!
//! A word costs few instructions and no branch. CPUs with AVX2 work on two words at once, and CPUs
//! with AVX-512 on four.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::region::{Cells, MoreCells, Record};

/// The records of a word.
pub(crate) type Pair = [Record; 2];

/// A type that is a pair of records.
pub(crate) trait Records {}

impl Records for Cells {}

impl Records for MoreCells {}

/// The records of the words of a range: rows of items with one or two words.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// The records of the first item's first word.
    pub(crate) first: *mut Pair,
    pub(crate) items: usize,
    /// Number of words of an item: one or two.
    pub(crate) of_item: usize,
    /// Distance from item to item, in words.
    pub(crate) step: isize,
    pub(crate) rows: u64,
    /// Distance from row to row, in words.
    pub(crate) distance: isize,
    /// Number of items from row to row; 0 for rows of the same items.
    pub(crate) row_items: u64,
}

/// A summary of pairs. Registers hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The greatest segments of first and of second records.
    pub(crate) latest: [u32; 2],
    /// The bits that any second record has.
    pub(crate) any: Record,
}

/// A further summary of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    /// The least segment of second records.
    pub(crate) earliest: u32,
    /// The bits that all second records have.
    pub(crate) every: Record,
}

/// A change of pairs: bits that stay, and new ones.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    kind: &'static Kind,
    /// The new bits of the first item of a row.
    first: u64,
}

/// A change without its numbers. It is a constant, as registers would wait for numbers that code
/// has just stored by parts.
struct Kind {
    stay: [u64; 2],
    /// The bits that are new.
    new: [u64; 2],
    /// The difference of the new bits from item to item.
    step: [u64; 2],
}

impl Words {
    /// Calls `body` with the records of the first word of each row.
    #[inline(always)]
    fn each_row(&self, mut body: impl FnMut(*mut Pair)) {
        let mut row = self.first;
        for _ in 0..self.rows {
            body(row);
            row = row.wrapping_offset(self.distance);
        }
    }

    /// Calls `body` with the records of each item of a row.
    #[inline(always)]
    fn each_item(&self, row: *mut Pair, mut body: impl FnMut(&mut [Pair])) {
        let mut item = row;
        for _ in 0..self.items {
            // SAFETY: the words are inside the region, and nothing else uses their records now.
            body(unsafe { std::slice::from_raw_parts_mut(item, self.of_item) });
            item = item.wrapping_offset(self.step);
        }
    }

    /// Returns whether the words of each row are neighbours, in order.
    #[inline]
    fn are_runs(&self) -> bool {
        self.step == self.of_item as isize
    }

    /// Calls `body` with the number of the row, and the records, of each word.
    #[inline(always)]
    pub(crate) fn each(&self, mut body: impl FnMut(u64, &mut Pair)) {
        let (mut number, count) = (0, self.items * self.of_item);
        self.each_row(|row| {
            if self.are_runs() {
                // SAFETY: see `each_item`.
                let all = unsafe { std::slice::from_raw_parts_mut(row, count) };
                all.iter_mut().for_each(|pair| body(number, pair));
            } else {
                self.each_item(row, |item| item.iter_mut().for_each(|pair| body(number, pair)));
            }
            number += 1;
        });
    }

    /// Returns a summary.
    #[inline(always)]
    pub(crate) fn see(self) -> Seen {
        // The usual case is without a loop.
        match self.rows {
            1 => self.see_row::<false>(self.first),
            _ => self.see_rows::<false>(),
        }
    }

    /// Returns a further summary.
    pub(crate) fn see_common(self) -> Common {
        let seen = self.see_rows::<true>();
        Common { earliest: !seen.latest[1], every: Record::from_bits(!seen.any.bits()) }
    }

    /// Returns a summary of the pairs, or of their complements.
    #[inline(never)]
    fn see_rows<const OF_COMPLEMENTS: bool>(self) -> Seen {
        let mut seen = Seen::NONE;
        self.each_row(|row| seen = seen.and(self.see_row::<OF_COMPLEMENTS>(row)));
        seen
    }

    #[inline(always)]
    fn see_row<const OF_COMPLEMENTS: bool>(self, row: *mut Pair) -> Seen {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            let Words { items, of_item, step, .. } = self;
            let count = items * of_item;
            // SAFETY: the CPU has the instructions, and `each_item` states the rest.
            return unsafe {
                if !self.are_runs() {
                    avx2::see::<OF_COMPLEMENTS>(row, items, of_item, step)
                } else if avx512::pays(count) {
                    avx512::see_run::<OF_COMPLEMENTS>(row, count)
                } else {
                    avx2::see_run::<OF_COMPLEMENTS>(row, count)
                }
            };
        }
        self.see_one_by_one::<OF_COMPLEMENTS>(row)
    }

    fn see_one_by_one<const OF_COMPLEMENTS: bool>(&self, row: *mut Pair) -> Seen {
        let mut seen = Seen::NONE;
        self.each_item(row, |item| {
            for pair in item {
                let by = if OF_COMPLEMENTS { u64::MAX } else { 0 };
                let [first, second] = pair.map(|record| Record::from_bits(record.bits() ^ by));
                let latest = [first.segment(), second.segment()];
                seen = seen.and(Seen { latest, any: second });
            }
        });
        seen
    }

    /// Changes the records.
    #[inline(always)]
    pub(crate) fn change(self, change: Change) {
        // The usual case is without a loop.
        match self.rows {
            1 => self.change_row(self.first, change),
            _ => self.change_rows(change),
        }
    }

    #[inline(never)]
    fn change_rows(self, Change { kind, mut first }: Change) {
        let by_row = kind.by_items(self.row_items);
        self.each_row(|row| {
            self.change_row(row, Change { kind, first });
            first = first.wrapping_add(by_row);
        });
    }

    #[inline(always)]
    fn change_row(self, row: *mut Pair, change: Change) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            let Words { items, of_item, step, .. } = self;
            let count = items * of_item;
            // SAFETY: the CPU has the instructions, and `each_item` states the rest.
            return unsafe {
                if !self.are_runs() {
                    avx2::change(row, (items, of_item, step), change);
                } else if avx512::pays(count) {
                    avx512::change_run(row, count, of_item, change);
                } else {
                    avx2::change_run(row, count, of_item, change);
                }
            };
        }
        self.change_one_by_one(row, change);
    }

    fn change_one_by_one(&self, row: *mut Pair, Change { kind, first }: Change) {
        let mut new = kind.new.map(|bits| bits & first);
        self.each_item(row, |item| {
            for pair in item {
                let [write, read] = pair.map(Record::bits);
                let bits = [write & kind.stay[0] | new[0], read & kind.stay[1] | new[1]];
                *pair = bits.map(Record::from_bits);
            }
            new = [new[0].wrapping_add(kind.step[0]), new[1].wrapping_add(kind.step[1])];
        });
    }
}

impl Seen {
    const NONE: Seen = Seen { latest: [0; 2], any: Record::NONE };

    #[inline]
    fn and(self, other: Seen) -> Seen {
        let latest = [0, 1].map(|index| self.latest[index].max(other.latest[index]));
        Seen { latest, any: Record::from_bits(self.any.bits() | other.any.bits()) }
    }

    /// Returns whether all accesses have segments below a bound.
    #[inline]
    pub(crate) fn are_below(&self, bound: u32) -> bool {
        self.latest[0] < bound && self.latest[1] < bound
    }
}

impl Kind {
    /// Returns the difference of the new bits over some items.
    fn by_items(&self, items: u64) -> u64 {
        items * (self.step[0] | self.step[1])
    }
}

impl Change {
    /// The removal of all records.
    pub(crate) const TO_NONE: Change =
        Change { kind: &Kind { stay: [0; 2], new: [0; 2], step: [0; 2] }, first: 0 };

    /// The statement by reads of [`Cells`] that words have further records.
    pub(crate) const TO_MORE: Change = {
        let kind = &Kind { stay: [u64::MAX; 2], new: [0, Record::MORE], step: [0; 2] };
        Change { kind, first: Record::MORE }
    };

    /// Returns the replacement of writes in [`Cells`]. The first item has this record. The reads do
    /// not state any longer that words have further records.
    #[inline]
    pub(crate) fn from_writes(first: Record) -> Change {
        let kind = &Kind { stay: [0, !Record::MORE], new: [u64::MAX, 0], step: [1, 0] };
        Change { kind, first: first.bits() }
    }

    /// Returns the replacement of reads in [`Cells`].
    #[inline]
    pub(crate) fn from_reads(first: Record) -> Change {
        let kind = &Kind { stay: [u64::MAX, Record::MORE], new: [0, u64::MAX], step: [0, 1] };
        Change { kind, first: first.bits() }
    }

    /// Returns the replacement of other reads in [`MoreCells`].
    #[inline]
    pub(crate) fn from_other_reads(first: Record) -> Change {
        let kind = &Kind { stay: [u64::MAX, 0], new: [0, u64::MAX], step: [0, 1] };
        Change { kind, first: first.bits() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a number without a pattern.
    fn mixed(seed: usize) -> u64 {
        let bits = (seed as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ bits >> 32
    }

    fn pairs(count: usize) -> Vec<Pair> {
        (0..count).map(|it| [mixed(2 * it), mixed(2 * it + 1)].map(Record::from_bits)).collect()
    }

    /// Calls `body` with ranges of all shapes: the range, the numbers of the words of each item,
    /// and all pairs.
    fn each_shape(mut body: impl FnMut(Words, &[Vec<usize>], &mut Vec<Pair>)) {
        let mut each = |(items, of_item, step): (usize, usize, isize), rows: usize, row_items| {
            let space = step.unsigned_abs() * items + of_item + 3;
            let mut all = pairs(space * rows);
            let begin = if step < 0 { step.unsigned_abs() * (items - 1) } else { 1 };
            let first = all.as_mut_ptr().wrapping_add(begin);
            let (distance, row_items) = (space as isize, row_items as u64);
            let rows = rows as u64;
            let words = Words { first, items, of_item, step, rows, distance, row_items };
            let of_items: Vec<Vec<usize>> = (0..rows as usize * items)
                .map(|it| (it / items, (it % items) as isize))
                .map(|(row, item)| ((row * space + begin) as isize + item * step) as usize)
                .map(|first| (first..first + of_item).collect())
                .collect();
            body(words, &of_items, &mut all);
        };
        for items in (1..12).chain([63, 64, 65, 256]) {
            for rows in [1, 2, 3] {
                for of_item in [1, 2] {
                    for step in [of_item as isize, 5, -3, 17] {
                        for row_items in [0, items] {
                            each((items, of_item, step), rows, row_items);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn summaries_cover_all_words() {
        each_shape(|words, items, all| {
            let pairs = || items.iter().flatten().map(|index| all[*index]);
            let segments = |index: usize| pairs().map(move |pair| pair[index].segment());
            let latest = [0, 1].map(|index| segments(index).max().unwrap());
            let any = Record::from_bits(pairs().fold(0, |any, pair| any | pair[1].bits()));
            assert_eq!(words.see(), Seen { latest, any });
            let earliest = segments(1).min().unwrap();
            let every = pairs().fold(u64::MAX, |every, pair| every & pair[1].bits());
            let common = Common { earliest, every: Record::from_bits(every) };
            assert_eq!(words.see_common(), common);
            words.each_row(|row| {
                let words = Words { rows: 1, first: row, ..words };
                assert_eq!(words.see(), words.see_one_by_one::<false>(row));
                assert_eq!(words.see_row::<true>(row), words.see_one_by_one::<true>(row));
            });
        });
    }

    #[test]
    fn words_change_as_one_by_one_and_others_stay() {
        let first = Record::from_bits(mixed(7) | u64::from(u32::MAX));
        let changes = [
            Change::from_writes(first),
            Change::from_reads(first),
            Change::from_other_reads(first),
            Change::TO_MORE,
            Change::TO_NONE,
        ];
        for change in changes {
            each_shape(|words, items, all| {
                let mut expected = all.clone();
                let kind = change.kind;
                for (row, of_row) in items.chunks(words.items).enumerate() {
                    let before = row as u64 * words.row_items;
                    for (item, indices) in (before..).zip(of_row) {
                        for index in indices {
                            let bits = expected[*index].map(Record::bits);
                            expected[*index] = [0, 1].map(|it| {
                                let by = kind.step[it].wrapping_mul(item);
                                let new = (change.first & kind.new[it]).wrapping_add(by);
                                Record::from_bits(bits[it] & kind.stay[it] | new)
                            });
                        }
                    }
                }
                if words.rows == 1 {
                    let old = all.clone();
                    words.change_one_by_one(words.first, change);
                    assert_eq!(*all, expected);
                    all.copy_from_slice(&old);
                }
                words.change(change);
                assert_eq!(*all, expected);
            });
        }
    }
}
