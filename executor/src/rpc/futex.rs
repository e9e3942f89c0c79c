//! Sleeping until another process changes a word.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{Timespec, futex};

/// Sleeps while the word is `while_it_is`, until a wake-up, for at most `at_most`. Returns whether
/// that time has passed. May return spuriously.
pub(super) fn sleep(word: &AtomicU32, while_it_is: u32, at_most: Option<Duration>) -> bool {
    let timeout = at_most.map(|time| Timespec {
        tv_sec: time.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    // Any other result is a changed word, a wake-up or a signal: the caller checks.
    let slept = futex::wait(word, futex::Flags::empty(), while_it_is, timeout.as_ref());
    slept == Err(rustix::io::Errno::TIMEDOUT)
}

/// Wakes up to `threads` threads that sleep on a word.
pub(super) fn wake(word: &AtomicU32, threads: u32) {
    let _ = futex::wake(word, futex::Flags::empty(), threads);
}

/// Calls `done` repeatedly until it returns true or `time` has passed, and returns the last result.
/// Yields the processor now and then: the other side may need it.
pub(super) fn spin(time: Duration, mut done: impl FnMut() -> bool) -> bool {
    if done() {
        return true;
    }
    if time.is_zero() {
        return false;
    }
    let start = Instant::now();
    loop {
        for _ in 0..64 {
            std::hint::spin_loop();
            if done() {
                return true;
            }
        }
        if start.elapsed() >= time {
            return false;
        }
        std::thread::yield_now();
    }
}

/// Loads a word that the other side writes.
pub(super) fn load(word: &AtomicU32) -> u32 {
    word.load(Ordering::Acquire)
}
