//! The limit on concurrent compilations.

use std::num::NonZero;
use std::thread::available_parallelism;

use parking_lot::{Condvar, Mutex};

/// Slots for concurrent compilations, one for each processor.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A taken slot, which is free again when this is dropped.
pub(crate) struct Slot<'a>(&'a Slots);

impl Default for Slots {
    fn default() -> Self {
        let count = available_parallelism().map_or(1, NonZero::get);
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }
}

impl Slots {
    /// Takes a slot. Blocks until one is free.
    pub(crate) fn take(&self) -> Slot<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}
