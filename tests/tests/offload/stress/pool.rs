//! Shared state of the threads: handles that any thread may destroy at any moment, and random
//! numbers.

use super::tally::Tally;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

const SLOTS: usize = 16;

/// Handles of one kind.
#[derive(Default)]
pub(crate) struct Slots([AtomicUsize; SLOTS]);

impl Slots {
    /// Returns one of the handles, which may be null or destroyed; rarely an invalid word.
    pub(crate) fn any<T>(&self, random: &mut Random) -> *mut T {
        let handle = match random.below(40) {
            0 => random.next() as usize >> 1,
            1 => 0,
            _ => self.0[random.below(SLOTS)].load(Relaxed),
        };
        handle as *mut T
    }

    /// Replaces a handle, which may be null, and returns it.
    pub(crate) fn put<T>(&self, random: &mut Random, handle: *mut T) -> *mut T {
        self.0[random.below(SLOTS)].swap(handle as usize, Relaxed) as *mut T
    }

    /// Returns all handles except null.
    pub(crate) fn all<T>(&self) -> impl Iterator<Item = *mut T> {
        let handles = self.0.iter().map(|slot| slot.load(Relaxed));
        handles.filter(|handle| *handle != 0).map(|handle| handle as *mut T)
    }
}

/// A generator of random numbers from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number, by SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns true once in `times` calls on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// State that all threads share.
pub(crate) struct Shared {
    pub(crate) tally: Tally,
    pub(crate) image: Vec<u8>,
    pub(crate) platforms: Slots,
    pub(crate) devices: Slots,
    pub(crate) queues: Slots,
    pub(crate) events: Slots,
    pub(crate) programs: Slots,
    /// Kernels without arguments, and variables.
    pub(crate) symbols: Slots,
    /// Kernels that number elements: their arguments are the address and the count of elements.
    pub(crate) iotas: Slots,
    /// Addresses, used in queries only.
    pub(crate) addresses: Slots,
    /// Number of queued host functions.
    pub(crate) queued: AtomicU64,
    pub(crate) called: AtomicU64,
}

impl Shared {
    pub(crate) fn new(image: Vec<u8>, may_be_shut_down: bool) -> Shared {
        Shared {
            tally: Tally::new(may_be_shut_down),
            image,
            platforms: Slots::default(),
            devices: Slots::default(),
            queues: Slots::default(),
            events: Slots::default(),
            programs: Slots::default(),
            symbols: Slots::default(),
            iotas: Slots::default(),
            addresses: Slots::default(),
            queued: AtomicU64::new(0),
            called: AtomicU64::new(0),
        }
    }

    /// Returns the pointer for a function that a queue calls.
    pub(crate) fn as_data(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }
}
