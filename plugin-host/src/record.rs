//! Records: the places in queues that events refer to.

use crate::spin::spin_until;
use crate::worker_pool::{QueuedCommands, worker_pool};
use longshore_plugin_api::Error;
use parking_lot::Mutex;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A place in a queue. A reached record stays reached.
pub(crate) struct Record {
    state: AtomicU32,
    timed: bool,
    reached_ns: AtomicI64,
    failure: OnceLock<Error>,
    /// Submission queues that resume when the record is reached.
    queues: Mutex<Vec<Arc<dyn QueuedCommands>>>,
}

const UNREACHED: u32 = 0;
const REACHED: u32 = 1;
/// The state of a record that is not reached, and for which a thread or a queue waits.
const AWAITED: u32 = 2;

impl Record {
    /// Creates a record that is not reached; `timed` if its time is needed.
    pub(crate) fn new(timed: bool) -> Record {
        Record {
            state: AtomicU32::new(UNREACHED),
            timed,
            reached_ns: AtomicI64::new(0),
            failure: OnceLock::new(),
            queues: Mutex::default(),
        }
    }

    /// Returns whether the record is reached. If so, the effects of all earlier commands of its
    /// queue are visible.
    pub(crate) fn is_reached(&self) -> bool {
        self.state.load(Ordering::Acquire) == REACHED
    }

    /// Returns the failure that the record was reached with.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Marks the record as reached, once. `failure` is the first pending failure of its queue.
    pub(crate) fn reach(&self, failure: Option<Error>) {
        if let Some(failure) = failure {
            let _ = self.failure.set(failure);
        }
        if self.timed {
            self.reached_ns.store(monotonic_ns(), Ordering::Relaxed);
        }
        if self.state.swap(REACHED, Ordering::AcqRel) == AWAITED {
            // The only possible error is a bad address, which the borrow rules out.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, i32::MAX as u32);
            let queues = std::mem::take(&mut *self.queues.lock());
            queues.into_iter().for_each(|queue| worker_pool().call(queue));
        }
    }

    /// Calls the worker pool for a submission queue when the record is reached. Returns `false` if
    /// the record was reached before.
    pub(crate) fn call_when_reached(&self, queue: &Arc<impl QueuedCommands>) -> bool {
        // The reaching thread takes the list once the state says that a queue waits; the lock
        // guards that state.
        let mut queues = self.queues.lock();
        let is_waiting = self.is_awaited();
        if is_waiting {
            queues.push(Arc::clone(queue) as Arc<dyn QueuedCommands>);
        }
        is_waiting
    }

    /// Marks the record as awaited. Returns `false` if it was reached.
    fn is_awaited(&self) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Acquire);
        self.state.compare_exchange(UNREACHED, AWAITED, success, failure) != Err(REACHED)
    }

    /// Blocks until the record is reached: spins for a moment, then sleeps.
    pub(crate) fn wait(&self) {
        if spin_until(Duration::from_micros(20), || self.is_reached()) {
            return;
        }
        while self.is_awaited() {
            // After an early return, caused by a signal or a state change, the loop continues.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
    }

    /// Returns the time in nanoseconds at which the record was reached, by `CLOCK_MONOTONIC`.
    pub(crate) fn reached_ns(&self) -> Option<i64> {
        self.is_reached().then(|| self.reached_ns.load(Ordering::Relaxed))
    }
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
