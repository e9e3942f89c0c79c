//! Sleeping until a word changes that another process may change.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{Timespec, futex};

/// Sleeps while the word has this value, until it is woken, or for so long at most: whether it was for so long. Returns for no
/// reason too.
pub(super) fn sleep(word: &AtomicU32, while_it_is: u32, at_most: Option<Duration>) -> bool {
    let timeout = at_most.map(|time| Timespec {
        tv_sec: time.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    // Else it was changed already, it was woken, or a signal came: the caller looks what it is.
    let slept = futex::wait(word, futex::Flags::empty(), while_it_is, timeout.as_ref());
    slept == Err(rustix::io::Errno::TIMEDOUT)
}

/// Wakes so many of those that sleep on a word.
pub(super) fn wake(word: &AtomicU32, threads: u32) {
    let _ = futex::wake(word, futex::Flags::empty(), threads);
}

/// Looks again and again for some time whether `done` says so. Lets others have the processor now and then: it may be the one for
/// which the other side waits.
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
