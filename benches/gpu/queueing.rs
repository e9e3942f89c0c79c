//! What queueing alone costs.

use longshore_benches::rounds::Contender;
use std::time::Instant;

/// How often something is queued before it is waited for: less than what the driver takes before it
/// makes the caller wait.
const QUEUED: u32 = 500;

/// Work that is queued, which is timed, and waited for, which is not.
pub(crate) fn alone<'a>(queue: impl Fn() + 'a, wait: impl Fn() + 'a) -> Contender<'a> {
    let round = move || {
        queue();
        wait();
        let start = Instant::now();
        (0..QUEUED).for_each(|_| queue());
        let took = start.elapsed();
        wait();
        took / QUEUED
    };
    Contender { round: Box::new(round) }
}
