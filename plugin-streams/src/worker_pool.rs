//! The threads that run commands of submission queues, as the queues see them.

use longshore_plugin_api::{WorkerGuard, WorkerPool};
use std::sync::Arc;

/// Number of threads that a backend's worker pool starts at once; further ones start only while all
/// present ones are stuck. Most threads wait for a stream, or inside a function of the program.
const MOST_THREADS: usize = 64;

/// A submission queue with kept commands.
pub(crate) trait DeferredWork: Send + Sync {
    /// Runs commands until none is left, or until the next one has to wait; returns the object that
    /// it waits for.
    fn run_commands(self: Arc<Self>) -> Option<Arc<dyn WaitTarget>>;

    /// Counts the calling thread among the device's workers, until the returned guard is dropped.
    fn worker_guard(&self) -> WorkerGuard;
}

/// An object that a submission queue waits for without a thread.
pub(crate) trait WaitTarget {
    /// Passes the submission queue to the worker pool once the object is ready. Returns the queue
    /// if the object is ready already.
    fn park(&self, queue: BusyQueue) -> Option<BusyQueue>;
}

/// A submission queue with kept commands. The device is not closed before they are done.
pub struct BusyQueue {
    // Dropped in this order: a caller that waits for the queue may then close the device.
    work: Arc<dyn DeferredWork>,
    _at_work: WorkerGuard,
}

impl BusyQueue {
    /// Creates the handle for a submission queue with this work.
    pub(crate) fn new(work: Arc<dyn DeferredWork>) -> BusyQueue {
        BusyQueue { _at_work: work.worker_guard(), work }
    }

    /// Creates the worker pool for all queues of a backend, with this name.
    pub const fn worker_pool(name: &'static str) -> WorkerPool<BusyQueue> {
        WorkerPool::new(name, MOST_THREADS, BusyQueue::attend)
    }

    /// Runs commands until none is left, or the queue is parked.
    fn attend(self) {
        let mut queue = self;
        while let Some(awaited) = Arc::clone(&queue.work).run_commands() {
            // A parked queue may finish before this thread drops `awaited`, which holds the device.
            let worker_guard = queue.work.worker_guard();
            let back = awaited.park(queue);
            drop(awaited);
            drop(worker_guard);
            match back {
                Some(back) => queue = back,
                None => return,
            }
        }
    }
}
