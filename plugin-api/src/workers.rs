//! Threads that a device has, and that must have ended before it is closed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Counts the threads that work for a device: those of queues that were given up, which still have
/// something to do.
#[derive(Default)]
pub struct Workers(Arc<State>);

#[derive(Default)]
struct State {
    count: Mutex<usize>,
    none: Condvar,
}

/// Counts as a thread that works for a device until it is dropped.
pub struct AtWork(Arc<State>);

impl Workers {
    /// Counts a thread in until the answer, which it takes along, is dropped.
    pub fn add(&self) -> AtWork {
        *self.0.count() += 1;
        AtWork(Arc::clone(&self.0))
    }

    /// Blocks until there is none.
    pub fn await_none(&self) {
        let mut count = self.0.count();
        while *count > 0 {
            count = self.0.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut count = self.0.count();
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn waiting_ends_with_the_last_thread() {
        let (workers, done) = (Workers::default(), AtomicBool::new(false));
        workers.await_none();
        let (first, last) = (workers.add(), workers.add());
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(first);
                thread::yield_now();
                done.store(true, Ordering::Release);
                drop(last);
            });
            workers.await_none();
            assert!(done.load(Ordering::Acquire));
        });
    }
}
