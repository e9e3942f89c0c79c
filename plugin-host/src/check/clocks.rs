//! Numbers of releases by groups or items. Neighbours mostly have equal numbers.

/// A number for each of some keys, as sorted runs of equal numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    runs: Vec<Run>,
}

/// The number of the keys from `first` to the one before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    end: u64,
    number: u32,
}

/// The releases of other items of a group that an item has acquired, or that a fence will acquire.
#[derive(Clone, Default)]
pub(crate) struct Acquired {
    pub(crate) items: Clocks,
    pub(crate) pending: Clocks,
}

impl Clocks {
    /// Returns the number of a key; 0 without one.
    pub(crate) fn get(&self, key: u64) -> u32 {
        let after = self.runs.partition_point(|run| run.first <= key);
        let run = after.checked_sub(1).map(|index| self.runs[index]);
        run.filter(|run| key < run.end).map_or(0, |run| run.number)
    }

    /// Raises the number of a key.
    pub(crate) fn raise(&mut self, key: u64, number: u32) {
        self.raise_run(Run { first: key, end: key + 1, number });
    }

    /// Raises all numbers to the ones of `other`.
    pub(crate) fn raise_all(&mut self, other: &Clocks) {
        other.runs.iter().for_each(|run| self.raise_run(*run));
    }

    fn raise_run(&mut self, new: Run) {
        let begin = self.runs.partition_point(|run| run.end < new.first);
        let count = self.runs[begin..].partition_point(|run| run.first <= new.end);
        let touched = &self.runs[begin..begin + count];
        let has_all =
            |run: &Run| run.first <= new.first && new.end <= run.end && new.number <= run.number;
        if touched.iter().any(has_all) {
            return;
        }
        let mut pieces = Vec::with_capacity(2 * count + 1);
        let mut next = new.first;
        for old in touched {
            let inside = old.end.min(new.end);
            add(&mut pieces, (old.first, old.end.min(new.first)), old.number);
            add(&mut pieces, (next, old.first.min(new.end)), new.number);
            add(&mut pieces, (old.first.max(new.first), inside), old.number.max(new.number));
            next = next.max(inside);
            if old.end > new.end {
                add(&mut pieces, (old.first.max(new.end), old.end), old.number);
            }
        }
        add(&mut pieces, (next, new.end), new.number);
        self.runs.splice(begin..begin + count, pieces);
    }
}

impl Acquired {
    /// Adds the releases that another item has acquired.
    pub(crate) fn join(&mut self, other: &Acquired) {
        self.items.raise_all(&other.items);
        self.pending.raise_all(&other.pending);
    }
}

/// Adds a run behind others, if it has keys.
fn add(runs: &mut Vec<Run>, (first, end): (u64, u64), number: u32) {
    if first >= end {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.end == first && last.number == number => last.end = end,
        _ => runs.push(Run { first, end, number }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_equal_numbers_become_one() {
        let mut clocks = Clocks::default();
        for key in [5, 1, 3, 2, 9] {
            clocks.raise(key, 1);
        }
        let run = |first, end, number| Run { first, end, number };
        assert_eq!(clocks.runs, [run(1, 4, 1), run(5, 6, 1), run(9, 10, 1)]);
        clocks.raise_run(run(4, 9, 1));
        assert_eq!(clocks.runs, [run(1, 10, 1)]);
        clocks.raise(4, 2);
        assert_eq!(clocks.runs, [run(1, 4, 1), run(4, 5, 2), run(5, 10, 1)]);
        clocks.raise_run(run(0, 12, 2));
        assert_eq!(clocks.runs, [run(0, 12, 2)]);
    }

    #[test]
    fn numbers_are_the_greatest_of_each_key() {
        let (mut clocks, mut expected) = (Clocks::default(), [0_u32; 40]);
        let mut random = 1_u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (first, length) = (random >> 33 & 31, 1 + (random >> 40 & 7));
            let number = 1 + (random >> 50 & 15) as u32;
            clocks.raise_run(Run { first, end: first + length, number });
            let keys = first as usize..(first + length) as usize;
            expected[keys].iter_mut().for_each(|it| *it = number.max(*it));
            assert!((0_u64..).zip(&expected).all(|(key, number)| clocks.get(key) == *number));
            let pairs = clocks.runs.windows(2);
            let mut pairs = pairs.map(|pair| (pair[0], pair[1]));
            assert!(
                pairs.all(|(a, b)| a.end < b.first || a.end == b.first && a.number != b.number)
            );
            if random >> 60 == 0 {
                (clocks, expected) = (Clocks::default(), [0; 40]);
            }
        }
    }
}
