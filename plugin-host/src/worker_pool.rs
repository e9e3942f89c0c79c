//! The threads that run the queues' commands.

use longshore_plugin_api::WorkerPool;
use std::sync::{Arc, LazyLock};
use std::thread;

/// Least limit of the worker pool. The limit is the number of threads that start without waiting
/// for other threads.
const LEAST_LIMIT: usize = 16;
/// Stack size of a thread: 8 MiB, as on a program's main thread.
const STACK_BYTES: usize = 8 << 20;

/// A queue's commands, as seen by the worker pool.
pub(crate) trait QueuedCommands: Send + Sync + 'static {
    /// Runs the commands that no other thread has taken. May block.
    fn attend(self: Arc<Self>);
}

/// Returns the threads of all queues of the process.
pub(crate) fn worker_pool() -> &'static WorkerPool<Arc<dyn QueuedCommands>> {
    static WORKER_POOL: LazyLock<WorkerPool<Arc<dyn QueuedCommands>>> = LazyLock::new(|| {
        let limit =
            thread::available_parallelism().map_or(0, |count| 2 * count.get()).max(LEAST_LIMIT);
        WorkerPool::new("longshore-q", limit, QueuedCommands::attend).with_stack(STACK_BYTES)
    });
    &WORKER_POOL
}
