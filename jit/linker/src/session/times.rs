//! The duration of links.

use std::time::{Duration, Instant};

/// The time that the links of a session have taken, step by step, and the amount of linked code.
/// Failed links count with their completed steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkTimes {
    /// The reading of graphs, and their pruning.
    pub read: Duration,
    /// The look-ups of symbols, including generators.
    pub resolve: Duration,
    /// The layout, and the allocation by the memory manager.
    pub allocate: Duration,
    /// The computation of content and fields, with the passes around it.
    pub fix_up: Duration,
    /// The change of protections, the finalize actions, and the reports to debuggers.
    pub finalize: Duration,
    /// The number of objects.
    pub objects: usize,
    /// The size of their segments in bytes, zeroes included.
    pub bytes: u64,
}

impl LinkTimes {
    /// Returns the time of all steps together.
    pub fn total(&self) -> Duration {
        self.read + self.resolve + self.allocate + self.fix_up + self.finalize
    }
}

/// Returns the time since the last lap, and starts the next one.
pub(super) fn lap(clock: &mut Instant) -> Duration {
    let now = Instant::now();
    now - std::mem::replace(clock, now)
}
