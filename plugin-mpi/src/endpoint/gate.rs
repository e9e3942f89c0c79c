//! The gate before MPI, which is closed while the program has no host, and before MPI is finalized.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longshore_executor::rpc::EndReason;

/// The calls of MPI by all threads, none of which waits in MPI.
#[derive(Debug, Default)]
pub(super) struct Gate {
    inside: AtomicUsize,
    is_closed: AtomicBool,
}

/// A call of MPI under way.
pub(super) struct Inside<'a>(&'a Gate);

impl Gate {
    /// Begins a call.
    ///
    /// # Errors
    /// `Here` if no call may begin.
    #[inline]
    pub(super) fn enter(&self) -> Result<Inside<'_>, EndReason> {
        // A thread that closes the gate sees this count, or this thread sees the closed gate.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self);
        match self.is_closed.load(Ordering::SeqCst) {
            false => Ok(inside),
            true => Err(EndReason::Here),
        }
    }

    /// Lets no further call begin, and waits for the calls under way for at most `limit`. Returns
    /// whether all have ended.
    pub(super) fn close(&self, limit: Duration) -> bool {
        self.is_closed.store(true, Ordering::SeqCst);
        let started = Instant::now();
        while self.inside.load(Ordering::SeqCst) > 0 {
            if started.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }

    /// Lets calls begin again.
    pub(super) fn open(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
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
    fn no_call_begins_while_the_gate_is_closed_and_closing_waits_for_calls() {
        let gate = Gate::default();
        let inside = gate.enter();
        assert!(inside.is_ok() && !gate.close(Duration::ZERO));
        drop(inside);
        assert!(gate.close(Duration::ZERO) && gate.is_closed());
        assert!(gate.enter().is_err());
        gate.open();
        assert!(gate.enter().is_ok());
    }
}
