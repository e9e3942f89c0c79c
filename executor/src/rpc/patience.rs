//! Whether callers look for their answers before they sleep.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Has callers look for an answer for about as long as it takes to be woken, as long as answers come that soon: then nobody needs to
/// be woken for them. It costs next to nothing where they take longer, or where the other side waits for the caller's processor.
#[derive(Debug, Default)]
pub(super) struct Patience {
    calls: AtomicU32,
    /// How often, of late, it was worth it.
    luck: AtomicU32,
}

/// What it takes to be woken, on a processor that has begun to rest.
const WAKING: Duration = Duration::from_micros(10);

/// After so many times that it was worth it, as many in vain end it.
const MOST_LUCK: u32 = 4;

/// Without luck one call of so many tries it again.
const SELDOM: u32 = 64;

impl Patience {
    /// How long the next caller looks.
    pub(super) fn time(&self) -> Duration {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.luck.load(Ordering::Relaxed) > 0 || calls.is_multiple_of(SELDOM) {
            true => WAKING,
            false => Duration::ZERO,
        }
    }

    /// Whether a caller who looked so long has found its answer. What several say at once may be lost.
    pub(super) fn learn(&self, found: bool) {
        let luck = self.luck.load(Ordering::Relaxed);
        let learnt = if found { (luck + 1).min(MOST_LUCK) } else { luck.saturating_sub(1) };
        if learnt != luck {
            self.luck.store(learnt, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_look_as_long_as_it_is_worth_it_and_now_and_then() {
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
