//! What a program did wrong.

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
    /// Notes a violation, with the function that this thread has called.
    pub(crate) fn note(&self, what: &str) {
        let line = format!("{}: {what}", CALL.get());
        self.violations.lock().push(line);
    }

    /// All violations since the last reset.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// Forgets them.
    pub(crate) fn reset(&self) {
        self.violations.lock().clear();
    }
}

/// Notes which of the driver's functions this thread is in.
pub(crate) fn set_call(name: &'static str) {
    CALL.set(name);
}
