//! How long links take.

use std::time::{Duration, Instant};

/// How long the links of a session have taken, step by step, and how much they have linked. Links that failed count with the steps
/// that they got to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkTimes {
    /// Reading graphs, and pruning them.
    pub read: Duration,
    /// Looking symbols up, with the generators that are asked.
    pub resolve: Duration,
    /// Layout, and memory from the memory manager.
    pub allocate: Duration,
    /// Content and fields, with the passes around them.
    pub fix_up: Duration,
    /// Protections and finalize actions, and telling debuggers.
    pub finalize: Duration,
    /// Number of objects.
    pub objects: usize,
    /// Bytes of their segments, zeroes included.
    pub bytes: u64,
}

impl LinkTimes {
    /// All steps together.
    pub fn total(&self) -> Duration {
        self.read + self.resolve + self.allocate + self.fix_up + self.finalize
    }
}

/// The time since the last lap, which this ends.
pub(super) fn lap(clock: &mut Instant) -> Duration {
    let now = Instant::now();
    now - std::mem::replace(clock, now)
}
