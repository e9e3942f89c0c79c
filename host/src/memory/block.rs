//! Blocks of memory from a plugin, and their size classes.

use longshore_plugin_api::MemoryKind;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Alignment of every block, in bytes.
pub(crate) const BLOCK_ALIGNMENT: u64 = 256;

const LOG_SMALLEST: u32 = BLOCK_ALIGNMENT.ilog2();
const LOG_LARGEST: u32 = 36;
const STEPS: u64 = 4;

/// Number of size classes.
pub(crate) const CLASSES: usize = ((LOG_LARGEST - LOG_SMALLEST) as u64 * STEPS + 1) as usize;

/// A block of memory, from the plugin's `allocate` to its `free`. In between, the block is live,
/// waits for queued work, or lies in the cache.
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) capacity: u64,
    pub(crate) kind: MemoryKind,
    pub(crate) device: u64,
    /// The size class for caching; `None` for a block that is not cached.
    pub(crate) class: Option<usize>,
    live: AtomicBool,
    requested: AtomicU64,
    location: AtomicPtr<Location<'static>>,
}

/// The use of a live block: its requested size and the allocating call.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    pub(crate) bytes: u64,
    pub(crate) location: &'static Location<'static>,
}

impl Block {
    pub(crate) fn new(
        address: u64,
        capacity: u64,
        kind: MemoryKind,
        device: u64,
        class: Option<usize>,
        user: Use,
    ) -> Block {
        Block {
            address,
            capacity,
            kind,
            device,
            class,
            live: AtomicBool::new(true),
            requested: AtomicU64::new(user.bytes),
            location: AtomicPtr::new(std::ptr::from_ref(user.location).cast_mut()),
        }
    }

    pub(crate) fn overlaps(&self, other: &Block) -> bool {
        self.address <= other.last() && other.address <= self.last()
    }

    /// Returns the address of the block's last byte.
    pub(crate) fn last(&self) -> u64 {
        self.address + (self.capacity - 1)
    }

    /// Takes a cached block into use again. Returns whether its requested size changes.
    pub(crate) fn revive(&self, user: Use) -> bool {
        // Relaxed: the caller has taken the block out of the cache, and no other thread uses it.
        let before = self.requested.load(Ordering::Relaxed);
        self.requested.store(user.bytes, Ordering::Relaxed);
        self.location.store(std::ptr::from_ref(user.location).cast_mut(), Ordering::Relaxed);
        self.live.store(true, Ordering::Release);
        before != user.bytes
    }

    /// Ends the use of the block. Returns false if the block was not live.
    pub(crate) fn retire(&self) -> bool {
        self.live.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    pub(crate) fn current_use(&self) -> Use {
        let location = self.location.load(Ordering::Relaxed);
        Use {
            bytes: self.requested.load(Ordering::Relaxed),
            // SAFETY: `location` is only set from references to static locations.
            location: unsafe { &*location },
        }
    }
}

/// Returns the size class of a request, and the size in bytes of its blocks. Four classes per power
/// of two waste at most a quarter of the request. `None` for a size above 64 GiB, which is not
/// cached.
pub(crate) fn class_of(bytes: u64) -> Option<(usize, u64)> {
    if bytes <= BLOCK_ALIGNMENT {
        return Some((0, BLOCK_ALIGNMENT));
    }
    let log = (bytes - 1).ilog2();
    if log >= LOG_LARGEST {
        return None;
    }
    let step = (1 << log) / STEPS;
    let capacity = bytes.next_multiple_of(step);
    let steps_above = (capacity - (1 << log)) / step;
    let class = u64::from(log - LOG_SMALLEST) * STEPS + steps_above;
    Some((class as usize, capacity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_with_the_size_and_waste_at_most_a_quarter() {
        let mut last = 0;
        for bytes in (1..5000u64).chain((0..20).map(|i| (1 << 20) + i * 77_777)) {
            let (class, capacity) = class_of(bytes).unwrap();
            assert!(class >= last && class < CLASSES, "{bytes}: class {class} after {last}");
            assert!(capacity >= bytes);
            assert!(bytes <= 256 || capacity - bytes < bytes / 4 + 1, "{bytes} in {capacity}");
            assert_eq!(class_of(capacity), Some((class, capacity)));
            last = class;
        }
    }

    #[test]
    fn powers_of_two_waste_nothing_and_the_largest_have_no_class() {
        for log in 8..=36 {
            assert_eq!(class_of(1 << log).unwrap().1, 1 << log);
        }
        assert_eq!(class_of((1 << 36) + 1), None);
        assert_eq!(class_of(u64::MAX), None);
    }
}
