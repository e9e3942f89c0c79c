//! The places in queues that events are recorded at.

use crate::crew::{Attended, crew};
use crate::spin::spin_until;
use longshore_plugin_api::Error;
use parking_lot::Mutex;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A place in a queue. Once reached, it stays so.
pub(crate) struct Record {
    state: AtomicU32,
    timed: bool,
    reached_ns: AtomicI64,
    failure: OnceLock<Error>,
    /// The lines that go on when it is reached.
    queues: Mutex<Vec<Arc<dyn Attended>>>,
}

const UNREACHED: u32 = 0;
const REACHED: u32 = 1;
/// Not reached, and somebody sleeps until it is.
const AWAITED: u32 = 2;

impl Record {
    /// Returns a place that was not reached; `timed` if the time of reaching it will be asked for.
    pub(crate) fn new(timed: bool) -> Record {
        Record {
            state: AtomicU32::new(UNREACHED),
            timed,
            reached_ns: AtomicI64::new(0),
            failure: OnceLock::new(),
            queues: Mutex::default(),
        }
    }

    /// Returns whether it was reached; if so, all that was queued before it is visible.
    pub(crate) fn is_reached(&self) -> bool {
        self.state.load(Ordering::Acquire) == REACHED
    }

    /// Returns the failure that it was reached with.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Reaches it, once. `failure` is the first one before it that its queue has told nobody of.
    pub(crate) fn reach(&self, failure: Option<Error>) {
        if let Some(failure) = failure {
            let _ = self.failure.set(failure);
        }
        if self.timed {
            self.reached_ns.store(monotonic_ns(), Ordering::Relaxed);
        }
        if self.state.swap(REACHED, Ordering::AcqRel) == AWAITED {
            // The only error is a bad address, which the borrow rules out.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, i32::MAX as u32);
            let queues = std::mem::take(&mut *self.queues.lock());
            queues.into_iter().for_each(|queue| crew().call(queue));
        }
    }

    /// Has the crew attend to a line when it is reached; false if it was reached before.
    pub(crate) fn call_when_reached(&self, queue: &Arc<impl Attended>) -> bool {
        // The thread that reaches the event takes the list once the state says that a queue waits; the lock guards that state.
        let mut queues = self.queues.lock();
        let is_waiting = self.is_awaited();
        if is_waiting {
            queues.push(Arc::clone(queue) as Arc<dyn Attended>);
        }
        is_waiting
    }

    /// Notes that somebody waits for it; false if it was reached.
    fn is_awaited(&self) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Acquire);
        self.state.compare_exchange(UNREACHED, AWAITED, success, failure) != Err(REACHED)
    }

    /// Blocks until it is reached: spins for a moment, then sleeps.
    pub(crate) fn wait(&self) {
        if spin_until(Duration::from_micros(20), || self.is_reached()) {
            return;
        }
        while self.is_awaited() {
            // An early return, by a signal or a state that changed meanwhile, goes round again.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
    }

    /// When it was reached, by `CLOCK_MONOTONIC`.
    pub(crate) fn reached_ns(&self) -> Option<i64> {
        self.is_reached().then(|| self.reached_ns.load(Ordering::Relaxed))
    }
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
