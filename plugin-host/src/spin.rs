//! Short waits without sleeping.

use std::time::{Duration, Instant};

/// Spins until `ready`, for about `limit`; returns whether it was ready. Yields the processor at
/// times, so that the awaited thread also runs on a busy machine.
pub(crate) fn spin_until(limit: Duration, ready: impl Fn() -> bool) -> bool {
    const SPINS: u32 = 64;
    let begin = Instant::now();
    loop {
        for _ in 0..SPINS {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        if begin.elapsed() >= limit {
            return false;
        }
        std::thread::yield_now();
    }
}
