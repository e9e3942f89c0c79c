//! Waiting with a time limit, for work that may never end.

use longshore_plugin_api::Result;
use std::time::{Duration, Instant};

/// Time of polling without sleep, about the duration of the shortest work: polling costs less than
/// waking up.
const SPIN: Duration = Duration::from_micros(50);
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Calls `done` until it returns true or `limit` is over, and returns its last result. Calls it at
/// least once, and once more at the end. Spins for 50 µs, then sleeps between the calls, up to 1
/// ms. Blocks.
///
/// # Errors
/// The first error of `done`.
pub(crate) fn poll(limit: Duration, done: impl Fn() -> Result<bool>) -> Result<bool> {
    let begin = Instant::now();
    let mut sleep = SHORTEST_SLEEP;
    loop {
        let passed = begin.elapsed();
        if done()? {
            return Ok(true);
        }
        let left = limit.saturating_sub(passed);
        if left.is_zero() {
            return Ok(false);
        }
        if passed < SPIN {
            std::thread::yield_now();
            continue;
        }
        std::thread::sleep(sleep.min(left));
        sleep = (2 * sleep).min(LONGEST_SLEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::{Error, ErrorCode};
    use std::cell::Cell;

    #[test]
    fn finished_work_is_found_without_waiting() {
        assert_eq!(poll(Duration::ZERO, || Ok(true)), Ok(true));
        assert_eq!(poll(Duration::ZERO, || Ok(false)), Ok(false));
    }

    #[test]
    fn a_limit_that_no_clock_can_hold_waits_on() {
        let asked = Cell::new(0);
        let done = || {
            asked.set(asked.get() + 1);
            Ok(asked.get() == 100)
        };
        assert_eq!(poll(Duration::MAX, done), Ok(true));
        assert_eq!(asked.get(), 100);
    }

    #[test]
    fn it_is_asked_once_more_when_the_time_is_over() {
        let limit = Duration::from_millis(3);
        let begin = Instant::now();
        let done = poll(limit, || Ok(begin.elapsed() >= limit));
        assert_eq!(done, Ok(true));
    }

    #[test]
    fn an_error_ends_the_wait() {
        let error = Error::new(ErrorCode::Unknown, "the driver is gone");
        assert_eq!(poll(Duration::MAX, || Err(error.clone())), Err(error.clone()));
    }
}
