//! The records of an event that its queue reports.

use parking_lot::Mutex;

/// The reports of an event's records by the queue itself.
#[derive(Default)]
pub(super) struct Records {
    state: Mutex<RecordsState>,
}

#[derive(Default)]
struct RecordsState {
    /// Number of reported records, and of reached records.
    recorded: u64,
    reached: u64,
    /// Whether the last record is reported.
    is_reported: bool,
    /// Functions to run when a record is reached.
    then: Vec<(u64, Then)>,
}

pub(super) type Then = Box<dyn FnOnce() + Send>;

impl Records {
    /// Adds a record, which is reported, and returns its number.
    pub(super) fn add(&self) -> u64 {
        let mut state = self.state.lock();
        state.recorded += 1;
        state.is_reported = true;
        state.recorded
    }

    /// Notes that a record is reached.
    pub(super) fn reach(&self, number: u64) {
        let mut state = self.state.lock();
        state.reached = state.reached.max(number);
        let reached = state.reached;
        let due: Vec<_> = state.then.extract_if(.., |(number, _)| *number <= reached).collect();
        drop(state);
        due.into_iter().for_each(|(_, then)| then());
    }

    /// Notes that the last record is not reported after all.
    pub(super) fn give_up_report(&self) {
        self.state.lock().is_reported = false;
    }

    /// Runs a function when the last record is reached. Returns it if no record is reported.
    pub(super) fn when_reached(&self, then: Then) -> Option<Then> {
        let mut state = self.state.lock();
        if !state.is_reported {
            return Some(then);
        }
        if state.recorded > state.reached {
            let last = state.recorded;
            state.then.push((last, then));
            return None;
        }
        drop(state);
        then();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_function_runs_once_when_the_last_record_before_it_is_reached() {
        let (records, runs) = (Records::default(), Arc::new(AtomicU32::new(0)));
        let count = || {
            let runs = Arc::clone(&runs);
            let count = move || {
                runs.fetch_add(1, Ordering::Relaxed);
            };
            Box::new(count) as Then
        };
        assert!(records.when_reached(count()).is_some());
        let (first, second) = (records.add(), records.add());
        assert!(records.when_reached(count()).is_none());
        records.reach(first);
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        records.reach(second);
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        records.reach(second);
        assert!(records.when_reached(count()).is_none());
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}
