//! The decision whether to spin for the next message before sleeping.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::futex;

/// A spinner that waits for a reply or a message. While messages come in less time than a wake-up
/// takes, it spins for about that time, and no thread needs to be woken. While they take longer, or
/// the other side waits for this processor, it rarely spins.
#[derive(Debug, Default)]
pub(super) struct AdaptiveSpin {
    times: AtomicU32,
    /// A score of recent success, up to [`MOST_SUCCESSES`].
    successes: AtomicU32,
}

/// Time of a wake-up on a processor that has entered an idle state.
const WAKING: Duration = Duration::from_micros(10);

/// Greatest score; this many failures in a row end the spinning.
const MOST_SUCCESSES: u32 = 4;

/// Interval of single attempts while the score is zero: one wait in this many.
const PROBE_INTERVAL: u32 = 64;

impl AdaptiveSpin {
    /// Spins for the time `asked` or, if it is zero, for the adaptive time. Returns whether the
    /// message has come.
    pub(super) fn look(&self, asked: Duration, come: impl FnMut() -> bool) -> bool {
        if !asked.is_zero() {
            return futex::spin(asked, come);
        }
        let time = self.time();
        let has_come = futex::spin(time, come);
        if !time.is_zero() {
            self.learn(has_come);
        }
        has_come
    }

    /// Returns the time to spin for this wait.
    fn time(&self) -> Duration {
        let times = self.times.fetch_add(1, Ordering::Relaxed);
        match self.successes.load(Ordering::Relaxed) > 0 || times.is_multiple_of(PROBE_INTERVAL) {
            true => WAKING,
            false => Duration::ZERO,
        }
    }

    /// Updates the score. Concurrent updates may be lost.
    fn learn(&self, has_come: bool) {
        let successes = self.successes.load(Ordering::Relaxed);
        let learnt = if has_come {
            (successes + 1).min(MOST_SUCCESSES)
        } else {
            successes.saturating_sub(1)
        };
        if learnt != successes {
            self.successes.store(learnt, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_follows_success_and_probes_now_and_then() {
        let adaptive_spin = AdaptiveSpin::default();
        let count = || (0..PROBE_INTERVAL).filter(|_| !adaptive_spin.time().is_zero()).count();
        assert_eq!(count(), 1);
        adaptive_spin.learn(true);
        assert_eq!(count(), PROBE_INTERVAL as usize);
        (0..100).for_each(|_| adaptive_spin.learn(true));
        (1..MOST_SUCCESSES).for_each(|_| adaptive_spin.learn(false));
        assert_eq!(count(), PROBE_INTERVAL as usize);
        adaptive_spin.learn(false);
        adaptive_spin.learn(false);
        assert_eq!(count(), 1);
    }
}
