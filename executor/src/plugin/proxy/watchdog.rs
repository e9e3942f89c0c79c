//! The time limit of calls to the executor.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The start times of calls under way. Time in which the executor waits for this process does not
/// count.
#[derive(Debug)]
pub(super) struct Watchdog {
    limit: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    calls: BTreeMap<u64, Instant>,
    next: u64,
    /// Number of callbacks under way.
    callbacks: usize,
    /// The time at which the last callback ended.
    last: Instant,
}

/// A call under way; dropping it ends the call.
pub(super) struct CallGuard<'a> {
    watchdog: &'a Watchdog,
    call: Option<u64>,
}

/// A callback under way; dropping it ends the callback.
pub(super) struct PauseGuard<'a>(&'a Watchdog);

impl Watchdog {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        let last = Instant::now();
        let state = State { calls: BTreeMap::new(), next: 0, callbacks: 0, last };
        Self { limit, state: Mutex::new(state) }
    }

    pub(super) fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Records the start of a call.
    pub(super) fn call(&self) -> CallGuard<'_> {
        let call = self.limit.map(|_| {
            let mut state = self.state.lock();
            let call = state.next;
            state.next += 1;
            state.calls.insert(call, Instant::now());
            call
        });
        CallGuard { watchdog: self, call }
    }

    /// Records the start of a callback, during which the executor waits for this process.
    pub(super) fn pause(&self) -> PauseGuard<'_> {
        if self.limit.is_some() {
            self.state.lock().callbacks += 1;
        }
        PauseGuard(self)
    }

    /// Returns whether a call takes longer than the limit.
    pub(super) fn is_over(&self) -> bool {
        let Some(limit) = self.limit else { return false };
        let state = self.state.lock();
        // Numbers rise, so the first call is the oldest.
        let oldest = state.calls.values().next();
        let since = oldest.filter(|_| state.callbacks == 0).map(|start| *start.max(&state.last));
        since.is_some_and(|since| since.elapsed() > limit)
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.watchdog.state.lock().calls.remove(&call);
        }
    }
}

impl Drop for PauseGuard<'_> {
    fn drop(&mut self) {
        if self.0.limit.is_some() {
            let mut state = self.0.state.lock();
            state.callbacks -= 1;
            state.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_over_after_the_limit_but_not_while_the_host_is_waited_for() {
        let watchdog = Watchdog::new(Some(Duration::from_millis(20)));
        let wait = || std::thread::sleep(Duration::from_millis(30));
        assert!(!watchdog.is_over());
        let call = watchdog.call();
        let paused = watchdog.pause();
        wait();
        assert!(!watchdog.is_over());
        drop(paused);
        assert!(!watchdog.is_over());
        wait();
        assert!(watchdog.is_over());
        drop(call);
        assert!(!watchdog.is_over());
        assert!(!Watchdog::new(None).is_over());
    }
}
