//! Registrations that some state does not reflect yet.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of registrations since a state was brought up to date. Only the owner of the state's
/// lock calls [`Backlog::settle`], once the state reflects the registrations. Until then other
/// threads wait for the lock.
#[derive(Debug)]
pub(crate) struct Backlog(AtomicUsize);

impl Backlog {
    /// Creates the counter of a state that reflects nothing.
    pub(crate) const fn new() -> Backlog {
        Backlog(AtomicUsize::new(1))
    }

    /// Notes a registration, which other threads see already.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of registrations that the state does not reflect.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Notes that the state reflects as many registrations as [`Backlog::count`] returned before.
    pub(crate) fn settle(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Backlog;

    #[test]
    fn a_registration_during_an_update_stays_counted() {
        let backlog = Backlog::new();
        let count = backlog.count();
        backlog.note();
        assert_eq!(backlog.count(), 2);
        backlog.settle(count);
        assert_eq!(backlog.count(), 1);
    }
}
