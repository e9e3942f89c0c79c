//! Whether to look for what comes next before sleeping.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::futex;

/// Looks for an answer, or for the next message, for about as long as it takes to be woken, as long as they come that soon: then nobody
/// needs to be woken for them. It costs next to nothing where they take longer, or where the other side waits for this processor.
#[derive(Debug, Default)]
pub(super) struct Patience {
    times: AtomicU32,
    /// How often, of late, it was worth it.
    luck: AtomicU32,
}

/// What it takes to be woken, on a processor that has begun to rest.
const WAKING: Duration = Duration::from_micros(10);

/// After so many times that it was worth it, as many in vain end it.
const MOST_LUCK: u32 = 4;

/// Without luck it is tried once in so many times.
const SELDOM: u32 = 64;

impl Patience {
    /// Looks as long as was asked for or, if that is zero, as long as it is worth it. Whether it has come.
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

    /// How long to look this time.
    fn time(&self) -> Duration {
        let times = self.times.fetch_add(1, Ordering::Relaxed);
        match self.luck.load(Ordering::Relaxed) > 0 || times.is_multiple_of(SELDOM) {
            true => WAKING,
            false => Duration::ZERO,
        }
    }

    /// What several say at once may be lost.
    fn learn(&self, has_come: bool) {
        let luck = self.luck.load(Ordering::Relaxed);
        let learnt = if has_come { (luck + 1).min(MOST_LUCK) } else { luck.saturating_sub(1) };
        if learnt != luck {
            self.luck.store(learnt, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_looks_as_long_as_it_is_worth_it_and_now_and_then() {
        let patience = Patience::default();
        let count = || (0..SELDOM).filter(|_| !patience.time().is_zero()).count();
        assert_eq!(count(), 1);
        patience.learn(true);
        assert_eq!(count(), SELDOM as usize);
        (0..100).for_each(|_| patience.learn(true));
        (1..MOST_LUCK).for_each(|_| patience.learn(false));
        assert_eq!(count(), SELDOM as usize);
        patience.learn(false);
        patience.learn(false);
        assert_eq!(count(), 1);
    }
}
