//! The threads that process queues without a waiting caller.

use longshore_plugin_api::{Result, Wake, WorkerGuard, WorkerPool};
use std::sync::Arc;

/// Number of threads that start without waiting for other threads. Many queues may have to wait for
/// host functions or a driver at the same time.
const MOST_AT_ONCE: usize = 64;

/// The threads of all queues of the process.
static WORKER_POOL: WorkerPool<Task> = WorkerPool::new("longshore-vk", MOST_AT_ONCE, Task::take);

/// Work for threads of the worker pool.
pub(crate) trait QueuedWork: Send + Sync + 'static {
    /// Processes the pending work, and drops `self` before `worker_guard`: the caller that waits
    /// for a device's work closes the device after the last drop. May block.
    fn attend(self: Arc<Self>, worker_guard: WorkerGuard);
}

/// One call of [`QueuedWork::attend`]. The fields are dropped in this order, as that function
/// requires.
pub(crate) struct Task {
    attended: Arc<dyn QueuedWork>,
    worker_guard: WorkerGuard,
}

impl Task {
    /// Creates a task, which counts as a thread at work on its device.
    pub(crate) fn new(attended: Arc<dyn QueuedWork>, worker_guard: WorkerGuard) -> Task {
        Task { attended, worker_guard }
    }

    /// Gives the task to a thread of the worker pool. Does not block.
    pub(crate) fn call(self) {
        WORKER_POOL.call(self);
    }

    /// Gives the task to a thread of the worker pool, if possible; the task is dropped on failure.
    /// Dropping the result wakes a sleeping thread.
    ///
    /// # Errors
    /// `OutOfResources` if no thread can take the task.
    pub(crate) fn try_call(self) -> Result<Wake<'static>> {
        WORKER_POOL.try_call(self)
    }

    fn take(self) {
        self.attended.attend(self.worker_guard);
    }
}
