//! Ranges of addresses for signal handlers. A look-up takes no lock and allocates nothing.

use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The first address and the end of no range, also while only one of both is written.
const FREE: [u64; 2] = [u64::MAX, 0];

/// A set of at most `MOST` ranges. Further ranges are not registered.
pub(crate) struct Ranges<const MOST: usize> {
    /// The first address of each range, and the address after its last byte; [`FREE`] in a free
    /// entry.
    entries: [[AtomicU64; 2]; MOST],
    /// Number of entries that were ever used.
    used: AtomicUsize,
    /// Free entries below `used`. Locked while an entry is taken or returned.
    free: Mutex<Vec<usize>>,
}

/// A registered range. Dropping it removes the registration, which must happen before the memory is
/// unmapped.
pub(crate) struct Registered<const MOST: usize> {
    ranges: &'static Ranges<MOST>,
    place: Option<usize>,
}

impl<const MOST: usize> Ranges<MOST> {
    pub(crate) const fn new() -> Ranges<MOST> {
        Ranges {
            entries: [const { [AtomicU64::new(FREE[0]), AtomicU64::new(FREE[1])] }; MOST],
            used: AtomicUsize::new(0),
            free: Mutex::new(Vec::new()),
        }
    }

    /// Registers a range.
    pub(crate) fn register(&'static self, range: Range<u64>) -> Registered<MOST> {
        let place = {
            let mut free = self.free.lock();
            let unused = || {
                let used = self.used.load(Ordering::Relaxed);
                (used < MOST).then(|| self.used.store(used + 1, Ordering::Release))?;
                Some(used)
            };
            free.pop().or_else(unused)
        };
        if let Some(place) = place {
            let [start, end] = &self.entries[place];
            end.store(range.end, Ordering::Release);
            start.store(range.start, Ordering::Release);
        }
        Registered { ranges: self, place }
    }

    /// Returns the number of the range that contains an address. A handler may call it.
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let used = self.used.load(Ordering::Acquire);
        self.entries[..used].iter().position(|[start, end]| {
            (start.load(Ordering::Acquire)..end.load(Ordering::Acquire)).contains(&address)
        })
    }
}

impl<const MOST: usize> Registered<MOST> {
    /// Returns the number of the range; `None` if it is not registered.
    pub(crate) fn number(&self) -> Option<usize> {
        self.place
    }
}

impl<const MOST: usize> Drop for Registered<MOST> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let [start, end] = &self.ranges.entries[place];
        start.store(FREE[0], Ordering::Release);
        end.store(FREE[1], Ordering::Release);
        self.ranges.free.lock().push(place);
    }
}

impl<const MOST: usize> fmt::Debug for Registered<MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("place", &self.place).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_known_until_it_is_dropped() {
        static RANGES: Ranges<2> = Ranges::new();
        const START: u64 = u64::MAX - (1 << 40);
        let first = RANGES.register(START..START + 10);
        let second = RANGES.register(START + 20..START + 30);
        let found = [START - 1, START, START + 9, START + 10, START + 20, START + 30];
        let found = found.map(|address| RANGES.find(address));
        assert_eq!(found, [None, Some(0), Some(0), None, Some(1), None]);
        let third = RANGES.register(0..START);
        assert_eq!(RANGES.find(1), None, "there is no room");
        drop(first);
        drop(third);
        assert_eq!([START, START + 20].map(|address| RANGES.find(address)), [None, Some(1)]);
        drop(second);
        let again = RANGES.register(0..START);
        assert!(RANGES.find(1).is_some());
        drop(again);
    }
}
