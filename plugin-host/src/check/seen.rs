//! Summaries of the records of many words.

use super::region::Record;

/// A summary of the records of some words. A word costs few instructions and no branch.
pub(crate) struct Seen {
    /// The greatest numbers of halves without a finding: segments of accesses that are over, and
    /// any number for the rest.
    over: Halves,
    recent: Halves,
    all: Halves,
}

impl Seen {
    /// Begins. Accesses with segments below `bound`, which is not 0, are over.
    #[inline(always)]
    pub(crate) fn new(bound: u32) -> Seen {
        let none = halves::NONE;
        Seen { over: halves::bound(bound - 1), recent: none, all: none }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, pair: &[Record; 2]) {
        let it = halves::from_pair(pair);
        self.recent = halves::or(self.recent, halves::greater(it, self.over));
        self.all = halves::or(self.all, it);
    }

    /// Returns whether an access is not over.
    #[inline]
    pub(crate) fn is_recent(&self) -> bool {
        let [first, second] = halves::records(self.recent);
        (first | second) as u32 != 0
    }

    /// Returns whether the access of a pair's first record is not over.
    #[inline]
    pub(crate) fn is_first_recent(&self) -> bool {
        halves::records(self.recent)[0] as u32 != 0
    }

    /// Returns whether the second record of a pair states that the word has further ones.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        let [_, read] = halves::records(self.all);
        Record::from_bits(read).has_more()
    }
}

/// A summary of the second records of pairs.
pub(crate) struct Second {
    /// The greatest segments before the bounds and inside.
    before: Halves,
    last: Halves,
    are_from: Halves,
    is_beyond: Halves,
    every: Halves,
    any: Halves,
}

impl Second {
    /// Begins, with bounds for segments: `from`, which is not 0, to the one before `end`.
    #[inline(always)]
    pub(crate) fn new(from: u32, end: u32) -> Second {
        Second {
            before: halves::bound(from - 1),
            last: halves::bound(end.max(1) - 1),
            are_from: halves::ALL,
            is_beyond: halves::NONE,
            every: halves::ALL,
            any: halves::NONE,
        }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, pair: &[Record; 2]) {
        let it = halves::from_pair(pair);
        self.are_from = halves::and(self.are_from, halves::greater(it, self.before));
        self.is_beyond = halves::or(self.is_beyond, halves::greater(it, self.last));
        self.every = halves::and(self.every, it);
        self.any = halves::or(self.any, it);
    }

    /// Returns whether all segments are between the bounds.
    #[inline]
    pub(crate) fn are_between(&self) -> bool {
        let [is_from, is_beyond] = [self.are_from, self.is_beyond].map(halves::records);
        is_from[1] as u32 != 0 && is_beyond[1] as u32 == 0
    }

    /// Returns whether all accesses are of whole words, and not atomic.
    #[inline]
    pub(crate) fn are_whole(&self) -> bool {
        let [every, any] =
            [self.every, self.any].map(|it| Record::from_bits(halves::records(it)[1]));
        every.bytes() == 15 && !any.is_atomic()
    }

    /// Returns whether all records state that their word has further ones.
    #[inline]
    pub(crate) fn have_more(&self) -> bool {
        Record::from_bits(halves::records(self.every)[1]).has_more()
    }
}

use halves::Halves;

/// The four halves of two records as a vector, for each record the lower half first.
#[cfg(target_arch = "x86_64")]
mod halves {
    use super::Record;
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpgt_epi32, _mm_loadu_si128, _mm_or_si128, _mm_set_epi32,
        _mm_set1_epi32, _mm_xor_si128,
    };

    pub(super) type Halves = __m128i;
    // SAFETY: both types have 16 bytes, of any value.
    pub(super) const NONE: Halves = unsafe { std::mem::transmute([0_u64; 2]) };
    // SAFETY: as above.
    pub(super) const ALL: Halves = unsafe { std::mem::transmute([u64::MAX; 2]) };

    /// Returns the bounds for [`greater`].
    #[inline(always)]
    pub(super) fn bound(segment: u32) -> Halves {
        let segment = (segment ^ 1 << 31) as i32;
        // SAFETY: each CPU of this architecture has the instruction.
        unsafe { _mm_set_epi32(i32::MAX, segment, i32::MAX, segment) }
    }

    #[inline(always)]
    pub(super) fn from_pair(pair: &[Record; 2]) -> Halves {
        // SAFETY: the pair has 16 bytes.
        unsafe { _mm_loadu_si128(pair.as_ptr().cast()) }
    }

    #[inline(always)]
    pub(super) fn or(one: Halves, other: Halves) -> Halves {
        // SAFETY: as in `bound`.
        unsafe { _mm_or_si128(one, other) }
    }

    #[inline(always)]
    pub(super) fn and(one: Halves, other: Halves) -> Halves {
        // SAFETY: as in `bound`.
        unsafe { _mm_and_si128(one, other) }
    }

    /// Returns all ones for halves that are greater than their bound. The instruction compares
    /// numbers with signs.
    #[inline(always)]
    pub(super) fn greater(it: Halves, bound: Halves) -> Halves {
        // SAFETY: as in `bound`.
        unsafe { _mm_cmpgt_epi32(_mm_xor_si128(it, _mm_set1_epi32(i32::MIN)), bound) }
    }

    #[inline(always)]
    pub(super) fn records(it: Halves) -> [u64; 2] {
        // SAFETY: both types have 16 bytes, of any value.
        unsafe { std::mem::transmute(it) }
    }
}

/// Two records, as numbers.
#[cfg(not(target_arch = "x86_64"))]
mod halves {
    use super::Record;

    pub(super) type Halves = [u64; 2];
    pub(super) const NONE: Halves = [0; 2];
    pub(super) const ALL: Halves = [u64::MAX; 2];

    /// Returns the bounds for [`greater`].
    pub(super) fn bound(segment: u32) -> Halves {
        [segment.into(); 2]
    }

    #[inline(always)]
    pub(super) fn from_pair(pair: &[Record; 2]) -> Halves {
        pair.map(|record| record.bits())
    }

    #[inline(always)]
    pub(super) fn or(one: Halves, other: Halves) -> Halves {
        [one[0] | other[0], one[1] | other[1]]
    }

    #[inline(always)]
    pub(super) fn and(one: Halves, other: Halves) -> Halves {
        [one[0] & other[0], one[1] & other[1]]
    }

    /// Returns a 1 for lower halves that are greater than the bound.
    #[inline(always)]
    pub(super) fn greater(it: Halves, bound: Halves) -> Halves {
        it.map(|record| bound[0].wrapping_sub(record & u64::from(u32::MAX)) >> 63)
    }

    #[inline(always)]
    pub(super) fn records(it: Halves) -> [u64; 2] {
        it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_further_records_of_words_are_seen() {
        let record = |segment| Record::new(segment, 15, true, 1 << 20);
        for segment in [0, 1, 8, 9, 10, 1 << 31, u32::MAX] {
            for bound in [1, 9, 10, 1 << 31, u32::MAX] {
                for has_more in [false, true] {
                    let [one, other] = [record(segment), record(0)];
                    for pair in [[one, other], [other, one]] {
                        let pair = [pair[0], pair[1].with_more(has_more)];
                        let mut seen = Seen::new(bound);
                        seen.add(&[other, other]);
                        seen.add(&pair);
                        assert_eq!(seen.is_recent(), segment >= bound);
                        assert_eq!(seen.has_more(), has_more);
                    }
                }
            }
        }
    }

    #[test]
    fn second_records_between_bounds_are_seen() {
        let record = |segment| Record::new(segment, 15, true, 1 << 20);
        let segments = [0, 1, 8, 9, 10, 1 << 31, u32::MAX];
        for (from, end) in [(1, 0), (1, 9), (8, 10), (9, u32::MAX), (1 << 31, u32::MAX)] {
            for one in segments {
                for other in segments {
                    let mut second = Second::new(from, end);
                    second.add(&[record(0), record(one)]);
                    second.add(&[record(u32::MAX), record(other)]);
                    let are_between = [one, other].iter().all(|it| (from..end).contains(it));
                    assert_eq!(second.are_between(), are_between);
                }
            }
        }
    }

    #[test]
    fn second_records_of_whole_words_are_seen() {
        let whole = Record::new(5, 15, false, 9).with_more(true);
        let atomic = Record::new(5, 15, true, 9).with_more(true);
        let part = Record::new(5, 7, false, 9);
        let common = |records: [Record; 2]| {
            let mut second = Second::new(1, 9);
            records.into_iter().for_each(|it| second.add(&[part, it]));
            (second.are_whole(), second.have_more())
        };
        assert_eq!(common([whole, whole]), (true, true));
        assert_eq!(common([whole, atomic]), (false, true));
        assert_eq!(common([whole, part]), (false, false));
        assert_eq!(common([whole, whole.with_more(false)]), (true, false));
    }
}
