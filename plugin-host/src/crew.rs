//! The threads that run the queues' commands.

use longshore_plugin_api::Crew;
use std::sync::{Arc, LazyLock};
use std::thread;

/// Least number of threads that are started without waiting for others.
const LEAST_LIMIT: usize = 16;
/// Kernels may use as much stack as on a program's main thread.
const STACK_BYTES: usize = 8 << 20;

/// A queue's commands, as the crew sees them.
pub(crate) trait Attended: Send + Sync + 'static {
    /// Runs the commands that no thread has taken. May block.
    fn attend(self: Arc<Self>);
}

/// The threads of all queues of the process.
pub(crate) fn crew() -> &'static Crew<Arc<dyn Attended>> {
    static CREW: LazyLock<Crew<Arc<dyn Attended>>> = LazyLock::new(|| {
        let limit =
            thread::available_parallelism().map_or(0, |count| 2 * count.get()).max(LEAST_LIMIT);
        Crew::new("longshore-q", limit, Attended::attend).with_stack(STACK_BYTES)
    });
    &CREW
}
