//! Listeners of entries, and calls that cannot go on.

use crate::Error;

/// Is told what becomes of entries (ORC's `LazyReexportsManager::Listener`), for example to have what is likely to be called next
/// linked before it is.
pub trait Listener: Send + Sync {
    /// Entries of these names are about to be there. The session may be locked, so it must not be used here.
    fn reexports_created(&self, names: &mut dyn Iterator<Item = &str>) {
        _ = names;
    }

    /// An entry has been called that may not have its implementation yet (ORC's `onLazyReexportCalled`). It is called on the thread
    /// that made the call, before the implementation is looked up, and several times for one entry if several threads call it
    /// first. It may look names up. Calls while the session links are not told of.
    fn reexport_called(&self, name: &str) {
        _ = name;
    }

    /// Entries of these names are gone.
    fn reexports_removed(&self, names: &mut dyn Iterator<Item = &str>) {
        _ = names;
    }
}

/// A call of an entry whose implementation cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{entry} was called, and its implementation {implementation} is not to be had: {error}")]
pub struct FailedCall {
    /// The entry's name.
    pub entry: Box<str>,
    /// The name of its implementation.
    pub implementation: Box<str>,
    /// Error of the link, or of the constructors that it had to run.
    pub error: Error,
}

/// Says where a call goes on that has failed: see [`LazyReexports::on_failure`](super::LazyReexports::on_failure).
pub(super) type FailureHandler = dyn Fn(&FailedCall) -> u64 + Send + Sync;
