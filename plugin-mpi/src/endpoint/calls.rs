//! The end of all calls of MPI, before MPI is finalized.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longshore_executor::rpc::EndReason;

/// The calls of MPI by all threads, none of which waits in MPI.
#[derive(Debug, Default)]
pub(super) struct Calls {
    inside: AtomicUsize,
    is_over: AtomicBool,
}

/// A call of MPI under way.
pub(super) struct Inside<'a>(&'a Calls);

impl Calls {
    /// Begins a call.
    ///
    /// # Errors
    /// `Here` if no call may begin any more.
    #[inline]
    pub(super) fn enter(&self) -> Result<Inside<'_>, EndReason> {
        // A thread that ends the calls sees this count, or this thread sees the end.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self);
        match self.is_over.load(Ordering::SeqCst) {
            false => Ok(inside),
            true => Err(EndReason::Here),
        }
    }

    /// Lets no further call begin, and waits for the calls under way for at most `limit`. Returns
    /// whether all have ended.
    pub(super) fn end(&self, limit: Duration) -> bool {
        self.is_over.store(true, Ordering::SeqCst);
        let started = Instant::now();
        while self.inside.load(Ordering::SeqCst) > 0 {
            if started.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_begins_after_the_end_which_waits_for_others() {
        let calls = Calls::default();
        let inside = calls.enter();
        assert!(inside.is_ok() && !calls.end(Duration::ZERO));
        drop(inside);
        assert!(calls.end(Duration::ZERO));
        assert!(calls.enter().is_err());
    }
}
