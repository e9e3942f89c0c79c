//! Counts of allocations, and their changes.

/// Number of kinds of memory; the discriminant of a kind is its index.
pub(super) const KINDS: usize = 3;

/// Counts and sizes of live and past allocations. Sizes are the requested ones, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Number of live allocations.
    pub live_count: u64,
    /// Size of all live allocations in bytes.
    pub live_bytes: u64,
    /// Largest size in bytes of all allocations live at one time.
    pub peak_bytes: u64,
    /// Number of all allocations, live and past.
    pub total_count: u64,
    /// Size of all allocations, live and past, in bytes.
    pub total_bytes: u64,
    /// Number of leaked allocations: live when their device was closed, and freed by the closing.
    pub leaked_count: u64,
    /// Size of all leaked allocations in bytes.
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
    /// Counts a change. The counts saturate: the sum of the sizes that a plugin allows is
    /// unbounded.
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
