//! The threads that run the queues' commands.

use crate::line::Line;
use longshore_plugin_api::Crew;
use std::sync::{Arc, LazyLock};
use std::thread;

/// Least number of threads that are started without waiting for others.
const LEAST_LIMIT: usize = 16;
/// Kernels may use as much stack as on a program's main thread.
const STACK_BYTES: usize = 8 << 20;

/// The threads of all queues of the process.
pub(crate) fn crew() -> &'static Crew<Arc<Line>> {
    static CREW: LazyLock<Crew<Arc<Line>>> = LazyLock::new(|| {
        let limit =
            thread::available_parallelism().map_or(0, |count| 2 * count.get()).max(LEAST_LIMIT);
        Crew::new("longshore-q", limit, |line: Arc<Line>| line.attend()).with_stack(STACK_BYTES)
    });
    &CREW
}
