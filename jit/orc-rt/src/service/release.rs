//! The release of objects that other services have made.

use serde::{Deserialize, Serialize};

use super::{code_libraries, exits, services, thread_locals};

services! {
    /// The service that releases objects, in one call. Nothing may use them any more.
    RELEASE = "__longshore_release", fn(Released) -> (), release;
}

/// The objects to release.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Released {
    /// Exit scopes. Their handlers are forgotten first, including handlers of other threads; the
    /// call waits for running handlers.
    pub scopes: Vec<u64>,
    /// Handles that were added to scopes.
    pub dso_handles: Vec<u64>,
    /// Thread-local storage, by number.
    pub thread_locals: Vec<u64>,
    /// Libraries that represent linked code, by number. The number of a closed library is skipped.
    pub code_libraries: Vec<u64>,
}

impl Released {
    /// Returns whether there is nothing to give back.
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
