//! Sets of numbers that are mostly runs.

/// A set of numbers, as sorted runs that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intervals {
    /// First and last number of each run.
    runs: Vec<(u64, u64)>,
}

impl Intervals {
    pub(crate) fn contains(&self, number: u64) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= number);
        after > 0 && self.runs[after - 1].1 >= number
    }

    pub(crate) fn insert(&mut self, number: u64) {
        self.insert_run(number, number);
    }

    pub(crate) fn insert_all(&mut self, other: &Intervals) {
        for (first, last) in &other.runs {
            self.insert_run(*first, *last);
        }
    }

    fn insert_run(&mut self, mut first: u64, mut last: u64) {
        let begin = self.runs.partition_point(|(_, end)| end.saturating_add(1) < first);
        let mut end = begin;
        while let Some((start, stop)) = self.runs.get(end)
            && *start <= last.saturating_add(1)
        {
            first = first.min(*start);
            last = last.max(*stop);
            end += 1;
        }
        self.runs.splice(begin..end, [(first, last)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_touch_become_one() {
        let mut set = Intervals::default();
        for number in [5, 1, 3, 2, 9] {
            set.insert(number);
        }
        assert_eq!(set.runs, [(1, 3), (5, 5), (9, 9)]);
        let mut other = Intervals::default();
        other.insert_run(4, 8);
        set.insert_all(&other);
        assert_eq!(set.runs, [(1, 9)]);
        assert!(set.contains(1) && set.contains(9));
        assert!(!set.contains(0) && !set.contains(10));
    }
}
