//! Mappings of the backend that contain fences: pages without access, at which overruns fault.
//!
//! A signal handler calls the lookup, so it takes no lock and allocates nothing.

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Most registered mappings at a time; further mappings are not registered.
const MOST: usize = 1 << 16;

/// The first address of each mapping, and the address after its last byte; both 0 in a free entry.
static RANGES: [[AtomicU64; 2]; MOST] = [const { [const { AtomicU64::new(0) }; 2] }; MOST];
/// Number of entries that were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Free entries below [`USED`]. Locked while an entry is taken or returned.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A registered mapping. Dropping it removes the registration, which must happen before the mapping
/// is unmapped.
#[derive(Debug)]
pub(crate) struct FencedMapping {
    place: Option<usize>,
}

impl FencedMapping {
    /// Registers a mapping: its fences and the memory between them.
    pub(crate) fn new(mapping: Range<u64>) -> FencedMapping {
        let place = {
            let mut free = FREE.lock();
            let unused = || {
                let used = USED.load(Ordering::Relaxed);
                (used < MOST).then(|| USED.store(used + 1, Ordering::Release))?;
                Some(used)
            };
            free.pop().or_else(unused)
        };
        if let Some(place) = place {
            let [start, end] = &RANGES[place];
            end.store(mapping.end, Ordering::Release);
            start.store(mapping.start, Ordering::Release);
        }
        FencedMapping { place }
    }
}

impl Drop for FencedMapping {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let [start, end] = &RANGES[place];
        start.store(0, Ordering::Release);
        end.store(0, Ordering::Release);
        FREE.lock().push(place);
    }
}

/// Returns whether an address lies in a fence. The access to the address must have been denied: the
/// memory between the fences counts too.
pub(crate) fn has(address: u64) -> bool {
    let used = USED.load(Ordering::Acquire);
    RANGES[..used].iter().any(|[start, end]| {
        (start.load(Ordering::Acquire)..end.load(Ordering::Acquire)).contains(&address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_known_until_it_is_dropped() {
        const START: u64 = u64::MAX - (1 << 40);
        let (first, second) =
            (FencedMapping::new(START..START + 10), FencedMapping::new(START + 20..START + 30));
        let found = [START - 1, START, START + 9, START + 10, START + 20, START + 30].map(has);
        assert_eq!(found, [false, true, true, false, true, false]);
        drop(first);
        assert_eq!([START, START + 20].map(has), [false, true]);
        drop(second);
        assert!(!has(START + 20));
    }
}
