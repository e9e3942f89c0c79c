//! What the threads share: handles, of which any may be destroyed at any moment, and numbers drawn at random.

use super::tally::Tally;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

const SLOTS: usize = 16;

/// Handles of one kind.
#[derive(Default)]
pub(crate) struct Slots([AtomicUsize; SLOTS]);

impl Slots {
    /// One of them, which may be null or destroyed; seldom something that never was a handle.
    pub(crate) fn any<T>(&self, random: &mut Random) -> *mut T {
        let handle = match random.below(40) {
            0 => random.next() as usize >> 1,
            1 => 0,
            _ => self.0[random.below(SLOTS)].load(Relaxed),
        };
        handle as *mut T
    }

    /// Puts a handle in the place of another one, which may be null.
    pub(crate) fn put<T>(&self, random: &mut Random, handle: *mut T) -> *mut T {
        self.0[random.below(SLOTS)].swap(handle as usize, Relaxed) as *mut T
    }

    /// Returns all that are not null.
    pub(crate) fn all<T>(&self) -> impl Iterator<Item = *mut T> {
        let handles = self.0.iter().map(|slot| slot.load(Relaxed));
        handles.filter(|handle| *handle != 0).map(|handle| handle as *mut T)
    }
}

/// Numbers drawn by a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns whether that is so once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// All that the threads share.
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
    /// Kernels that number elements: their arguments are where these are and how many.
    pub(crate) iotas: Slots,
    /// Addresses, to ask about and for nothing else.
    pub(crate) addresses: Slots,
    /// Functions of the program that were queued.
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

    /// For a function that a queue calls.
    pub(crate) fn as_data(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }
}
