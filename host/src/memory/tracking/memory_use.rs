//! Counts of allocations, and how they change.

/// How many kinds of memory there are; each is its own index.
pub(super) const KINDS: usize = 3;

/// How much memory is and was allocated. Bytes are as they were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Allocations that were not freed.
    pub live_count: u64,
    /// Bytes of those.
    pub live_bytes: u64,
    /// The most bytes that were live at one time.
    pub peak_bytes: u64,
    /// Allocations that were made.
    pub total_count: u64,
    /// Bytes of those.
    pub total_bytes: u64,
    /// Allocations that were live when their device was closed, which freed them.
    pub leaked_count: u64,
    /// Bytes of those.
    pub leaked_bytes: u64,
}

/// A change in the state of an allocation.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Allocated,
    Freed,
    Leaked,
}

impl MemoryUse {
    /// Saturates: the sum of sizes that a plugin allows is unbounded.
    pub(super) fn apply(&mut self, change: Change, bytes: u64) {
        let add = |count: &mut u64, more| *count = count.saturating_add(more);
        if let Change::Allocated = change {
            add(&mut self.live_count, 1);
            add(&mut self.live_bytes, bytes);
            add(&mut self.total_count, 1);
            add(&mut self.total_bytes, bytes);
            self.peak_bytes = self.peak_bytes.max(self.live_bytes);
            return;
        }
        self.live_count = self.live_count.saturating_sub(1);
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
        if let Change::Leaked = change {
            add(&mut self.leaked_count, 1);
            add(&mut self.leaked_bytes, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_device_has_do_not_overflow() {
        let mut memory = MemoryUse::default();
        for _ in 0..3 {
            memory.apply(Change::Allocated, i64::MAX as u64);
        }
        assert_eq!(memory.total_bytes, u64::MAX);
        (0..3).for_each(|_| memory.apply(Change::Leaked, i64::MAX as u64));
        assert_eq!((memory.live_bytes, memory.live_count), (0, 0));
    }
}
