//! The time of queueing alone.

use longshore_benches::rounds::Contender;
use std::time::Instant;

/// Number of operations queued before a wait: less than the driver accepts without blocking.
const QUEUED: u32 = 500;

/// Creates a contender whose queueing is timed, but not the wait after it.
pub(crate) fn alone<'a>(queue: impl Fn() + 'a, wait: impl Fn() + 'a) -> Contender<'a> {
    let sample = move || {
        queue();
        wait();
        let start = Instant::now();
        (0..QUEUED).for_each(|_| queue());
        let took = start.elapsed();
        wait();
        took / QUEUED
    };
    Contender { sample: Box::new(sample) }
}
