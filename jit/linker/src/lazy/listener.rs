//! Listeners of entries, and calls that cannot continue.

use crate::Error;

/// A receiver of events about entries (ORC's `LazyReexportsManager::Listener`), for example to link
/// the next likely calls in advance.
pub trait Listener: Send + Sync {
    /// Handles the coming creation of entries of these names. The session may be locked, so the
    /// listener must not use it here.
    fn reexports_created(&self, names: &mut dyn Iterator<Item = &str>) {
        _ = names;
    }

    /// Handles a call of an entry that may not have its implementation yet (ORC's
    /// `onLazyReexportCalled`). It runs on the calling thread, before the implementation is looked
    /// up, and several times for one entry if several threads call it first. It may look names up.
    /// Calls during a link are not reported.
    fn reexport_called(&self, name: &str) {
        _ = name;
    }

    /// Handles the removal of entries of these names.
    fn reexports_removed(&self, names: &mut dyn Iterator<Item = &str>) {
        _ = names;
    }
}

/// A call of an entry whose implementation is not available.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{entry} was called, and its implementation {implementation} is not available: {error}")]
pub struct FailedCall {
    /// The entry's name.
    pub entry: Box<str>,
    /// The implementation's name.
    pub implementation: Box<str>,
    /// Error of the link, or of the constructors that it had to run.
    pub error: Error,
}

/// A function that returns the address at which a failed call continues: see
/// [`LazyReexports::on_failure`](super::LazyReexports::on_failure).
pub(super) type FailureHandler = dyn Fn(&FailedCall) -> u64 + Send + Sync;
