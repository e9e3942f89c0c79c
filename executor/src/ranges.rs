//! The free parts of a range of numbers.

use std::collections::BTreeMap;

/// Start and size of each free part; no two parts touch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FreeRanges(BTreeMap<u64, u64>);

impl FreeRanges {
    /// Creates a range that is all free.
    pub(crate) fn new(start: u64, size: u64) -> Self {
        Self(BTreeMap::from([(start, size)]))
    }

    /// Takes `size` numbers, at a multiple of `alignment`, a power of two, from the first free part
    /// with room.
    pub(crate) fn take(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let (start, free, taken) = self.0.iter().find_map(|(start, free)| {
            let taken = start.checked_next_multiple_of(alignment)?;
            let fits = taken - start <= *free && size <= free - (taken - start);
            fits.then_some((*start, *free, taken))
        })?;
        self.0.remove(&start);
        if taken > start {
            self.0.insert(start, taken - start);
        }
        let rest = free - (taken - start) - size;
        if rest > 0 {
            self.0.insert(taken + size, rest);
        }
        Some(taken)
    }

    /// Gives a taken part back.
    pub(crate) fn give_back(&mut self, start: u64, size: u64) {
        let (mut first, mut all) = (start, size);
        if let Some((before, free)) = self.0.range(..start).next_back().map(|(a, b)| (*a, *b))
            && before + free == start
        {
            self.0.remove(&before);
            (first, all) = (before, free + size);
        }
        if let Some(free) = self.0.remove(&(start + size)) {
            all += free;
        }
        self.0.insert(first, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_aligned_and_come_together_again() {
        let mut ranges = FreeRanges::new(10, 1000);
        let taken: Vec<_> = [(100, 1), (64, 64), (300, 256), (1, 8)]
            .map(|(n, to)| ranges.take(n, to).unwrap())
            .into();
        assert_eq!(taken, [10, 128, 256, 112]);
        assert_eq!(ranges.take(455, 1), None);
        assert_eq!(ranges.take(454, 1), Some(556));
        for (start, size) in [(128, 64), (10, 100), (556, 454), (256, 300), (112, 1)] {
            ranges.give_back(start, size);
        }
        assert_eq!(ranges.0, BTreeMap::from([(10, 1000)]));
    }
}
