//! Violations of the driver's contract.

use parking_lot::Mutex;
use std::cell::Cell;

/// The violations of a driver's contract, in their order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    violations: Mutex<Vec<String>>,
}

thread_local! {
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

impl Report {
    /// Records a violation, with the function that this thread has called.
    pub(crate) fn note(&self, what: &str) {
        let line = format!("{}: {what}", CALL.get());
        self.violations.lock().push(line);
    }

    /// Returns all violations since the last reset.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// Forgets all violations.
    pub(crate) fn reset(&self) {
        self.violations.lock().clear();
    }
}

/// Records the driver's function that this thread is in.
pub(crate) fn set_call(name: &'static str) {
    CALL.set(name);
}
