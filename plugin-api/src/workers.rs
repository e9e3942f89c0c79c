//! Threads that work for a device and must end before the device is closed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A count of the threads that work for a device: threads of dropped queues that still have work.
#[derive(Default)]
pub struct Workers(Arc<State>);

#[derive(Default)]
struct State {
    count: Mutex<usize>,
    none: Condvar,
}

/// A thread's place in the count of a device's [`Workers`], until the value is dropped.
pub struct WorkerGuard(Arc<State>);

impl Workers {
    /// Counts a thread until the returned value, which the thread owns, is dropped.
    pub fn add(&self) -> WorkerGuard {
        *self.0.count() += 1;
        WorkerGuard(Arc::clone(&self.0))
    }

    /// Blocks until no thread is counted.
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

impl Drop for WorkerGuard {
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
