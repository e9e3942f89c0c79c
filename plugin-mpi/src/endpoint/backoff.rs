//! Pauses of a thread that polls MPI, whose waits would keep a processor busy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The pauses of one wait: none at first, then the processor is yielded, then the thread sleeps.
pub(super) struct Backoff<'a> {
    turns: u32,
    since: Option<Instant>,
    /// Threads that poll.
    polling: &'a AtomicUsize,
}

/// Polls before the processor is yielded.
const EAGER: u32 = 64;
/// Polls between looks at the clock.
const LOOK: u32 = 16;
/// Time for which a thread only yields.
const YIELDING: Duration = Duration::from_millis(2);
/// Time after which sleeps are long.
const BRISK: Duration = Duration::from_millis(50);

impl<'a> Backoff<'a> {
    /// Begins a wait, which counts in `polling`.
    pub(super) fn new(polling: &'a AtomicUsize) -> Self {
        polling.fetch_add(1, Ordering::Relaxed);
        Self { turns: 0, since: None, polling }
    }

    /// Pauses after a poll without success.
    pub(super) fn pause(&mut self) {
        self.turns += 1;
        if self.turns < EAGER {
            std::hint::spin_loop();
            return;
        }
        if !self.turns.is_multiple_of(LOOK) {
            return;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited < YIELDING {
            std::thread::yield_now();
        } else {
            self.turns = EAGER + LOOK - 1 - EAGER % LOOK;
            let nap = if waited < BRISK { 20 } else { 200 };
            std::thread::sleep(Duration::from_micros(nap));
        }
    }

    /// Returns whether rare events should be looked for now: at times, in a wait that lasts.
    pub(super) fn looks_around(&self) -> bool {
        self.turns >= EAGER && self.turns % LOOK == LOOK - 1
    }
}

impl Drop for Backoff<'_> {
    fn drop(&mut self) {
        self.polling.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets sleeps of this thread end within some microseconds of their time.
pub(super) fn sharpen_sleeps() {
    // SAFETY: the call sets a number of this thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000_u64, 0_u64, 0_u64, 0_u64) };
}
