//! [`Rundown`]: a value that many threads use until one thread takes it.
//!
//! The alternative is `ShardedLock<Option<T>>` of the crate `crossbeam-utils`: users read, the
//! taker writes. The table has nanoseconds per call on a virtual x86-64 machine with 2 cores; "at
//! once" means two threads whose calls overlap:
//!
//! | calls | `Rundown`, 1 counter | `Rundown`, 8 counters | `ShardedLock` |
//! | --- | --- | --- | --- |
//! | enter and leave | 3.4 | 3.4 | 4.9 |
//! | enter and leave, at once | 15 to 23 | 3.6 | 4.9 |
//! | make and take | 10 | 24 | 57 |
//!
//! A queue or an event, which threads seldom share, has one counter; a device or a program has
//! eight. A waiting writer of `ShardedLock` also blocks later readers. If such a reader is a host
//! function that the writer waits for and that uses its device again, both wait for ever. A closed
//! `Rundown` refuses later users immediately.

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering};
use std::cell::UnsafeCell;
use std::ops::Deref;

/// A value that threads use through [`Rundown::enter`] until [`Rundown::take`] takes it, once.
/// Taking waits until all rundown guards are dropped. Afterwards [`Rundown::enter`] returns `None`.
///
/// Entering and leaving are one atomic operation each, on one of `SHARDS` counters. Threads that
/// enter by different shards share no cache line.
pub(crate) struct Rundown<T, const SHARDS: usize = 1> {
    inside: [Shard; SHARDS],
    closed: AtomicBool,
    left: Mutex<()>,
    wake: Condvar,
    value: UnsafeCell<Option<T>>,
}

#[repr(align(64))]
#[derive(Default)]
struct Shard(AtomicUsize);

// SAFETY: the value is shared by reference among threads (`Sync`) and taken out on one of them
// (`Send`).
unsafe impl<T: Send + Sync, const SHARDS: usize> Sync for Rundown<T, SHARDS> {}

impl<T, const SHARDS: usize> Rundown<T, SHARDS> {
    /// Creates an open rundown with this value.
    pub(crate) fn new(value: T) -> Self {
        Rundown {
            inside: std::array::from_fn(|_| Shard::default()),
            closed: AtomicBool::new(false),
            left: Mutex::new(()),
            wake: Condvar::new(),
            value: UnsafeCell::new(Some(value)),
        }
    }

    /// Enters by the shard `hint % SHARDS`. Returns `None` if the value was taken.
    #[inline]
    pub(crate) fn enter(&self, hint: usize) -> Option<RundownGuard<'_, T, SHARDS>> {
        let shard = &self.inside[hint % SHARDS].0;
        // `take` sets `closed` first and then modifies the shard as well. If its modification comes
        // after this one, it sees this thread inside; else this one acquires its store of `closed`.
        shard.fetch_add(1, Ordering::AcqRel);
        if self.closed.load(Ordering::Acquire) {
            self.leave(shard);
            return None;
        }
        // SAFETY: `take` waits for this shard to be 0 before it accesses the value.
        let value = unsafe { (*self.value.get()).as_ref() }?;
        Some(RundownGuard { rundown: self, shard, value })
    }

    /// Closes the rundown, waits until no thread is inside, and takes the value. Returns `None` if
    /// another call took the value before. A thread that holds a guard must not call this: it would
    /// wait for itself.
    pub(crate) fn take(&self) -> Option<T> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        let mut left = self.left.lock();
        for shard in &self.inside {
            // A modification, not a load: see `enter` and `leave`.
            while shard.0.fetch_add(0, Ordering::AcqRel) != 0 {
                self.wake.wait(&mut left);
            }
        }
        // SAFETY: the rundown is closed and no thread is inside; a thread that enters from now on
        // leaves before it accesses the value.
        unsafe { (*self.value.get()).take() }
    }

    /// Returns whether the value was taken, or is being taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns whether a thread is inside.
    pub(crate) fn is_in_use(&self) -> bool {
        self.inside.iter().any(|shard| shard.0.load(Ordering::Acquire) != 0)
    }

    #[inline]
    fn leave(&self, shard: &AtomicUsize) {
        // A taker that saw this thread inside has set `closed` before, which this modification
        // acquires.
        let last = shard.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && self.closed.load(Ordering::Acquire) {
            self.wake_taker();
        }
    }

    #[cold]
    fn wake_taker(&self) {
        // The lock orders this after the taker's check and before its wait, or after its wait.
        drop(self.left.lock());
        self.wake.notify_all();
    }
}

/// A rundown guard: the right to use the value of a [`Rundown`]. [`Rundown::take`] waits until it
/// is dropped.
pub(crate) struct RundownGuard<'a, T, const SHARDS: usize = 1> {
    rundown: &'a Rundown<T, SHARDS>,
    shard: &'a AtomicUsize,
    value: &'a T,
}

impl<T, const SHARDS: usize> Deref for RundownGuard<'_, T, SHARDS> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T, const SHARDS: usize> Drop for RundownGuard<'_, T, SHARDS> {
    #[inline]
    fn drop(&mut self) {
        self.rundown.leave(self.shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_value_is_taken_once_and_entered_no_more() {
        let rundown: Rundown<u32> = Rundown::new(7);
        let guard = rundown.enter(0).unwrap();
        assert_eq!(*guard, 7);
        assert!(rundown.is_in_use());
        drop(guard);
        assert!(!rundown.is_in_use());
        assert_eq!(rundown.take(), Some(7));
        assert_eq!(rundown.take(), None);
        assert!(rundown.enter(0).is_none());
    }

    #[test]
    fn taking_waits_for_those_inside() {
        let rundown: Arc<Rundown<AtomicUsize, 4>> = Arc::new(Rundown::new(AtomicUsize::new(0)));
        let inside = rundown.enter(2).unwrap();
        let taker = std::thread::spawn({
            let rundown = Arc::clone(&rundown);
            move || rundown.take().unwrap().into_inner()
        });
        while !rundown.is_closed() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(5));
        inside.store(1, Ordering::SeqCst);
        drop(inside);
        assert_eq!(taker.join().unwrap(), 1);
    }

    #[test]
    fn many_threads_enter_until_it_is_taken() {
        for _ in 0..200 {
            let rundown: Arc<Rundown<Box<u32>, 2>> = Arc::new(Rundown::new(Box::new(1)));
            let threads = [0, 1, 2].map(|hint| {
                let rundown = Arc::clone(&rundown);
                std::thread::spawn(move || {
                    let mut sum = 0;
                    while let Some(value) = rundown.enter(hint) {
                        sum += **value;
                    }
                    sum
                })
            });
            std::thread::yield_now();
            drop(rundown.take());
            assert!(threads.map(|thread| thread.join().is_ok()).iter().all(|ended| *ended));
        }
    }
}
