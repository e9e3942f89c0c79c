//! Giving back what other services have made.

use serde::{Deserialize, Serialize};

use super::{code_libraries, exits, services, thread_locals};

services! {
    /// Gives things back, in one call. Nothing may use them any more.
    RELEASE = "__longshore_release", fn(Released) -> (), release;
}

/// What is given back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Released {
    /// Exit scopes. First of all their handlers are forgotten, those of other threads too; that waits for those that are running.
    pub scopes: Vec<u64>,
    /// Handles that scopes were given.
    pub dso_handles: Vec<u64>,
    /// Thread-local storage, by its numbers.
    pub thread_locals: Vec<u64>,
    /// Libraries that stand for linked code, by their numbers. A number of one that is closed already is skipped.
    pub code_libraries: Vec<u64>,
}

impl Released {
    /// Whether there is nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
            && self.dso_handles.is_empty()
            && self.thread_locals.is_empty()
            && self.code_libraries.is_empty()
    }
}

fn release(released: Released) {
    code_libraries::close(&released.code_libraries);
    exits::forget(&released.scopes);
    thread_locals::release(&released.thread_locals);
    exits::remove_handles(&released.dso_handles);
    exits::release(&released.scopes);
}
