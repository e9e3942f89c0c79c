//! The threads that do the work which queues keep, as they see it.

use longshore_plugin_api::{AtWork, Crew};
use std::sync::Arc;

/// Number of threads of a backend's crew that are started without waiting for others. Most of them wait for a
/// stream, or for whatever a function of the program waits for.
const MOST_THREADS: usize = 64;

/// A queue's work that is kept.
pub(crate) trait KeptWork: Send + Sync {
    /// Does steps until none is left, or the next one waits, for which the answer stands.
    fn do_steps(self: Arc<Self>) -> Option<Arc<dyn Awaited>>;

    /// Counts the calling thread in with those that work for the device, until the answer is dropped.
    fn at_work(&self) -> AtWork;
}

/// A thing that a line waits for without a thread.
pub(crate) trait Awaited {
    /// Has the crew attend to a line when the thing is there. Gives the line back if it is there already.
    fn park(&self, line: BusyLine) -> Option<BusyLine>;
}

/// A line that keeps work. The device is not closed before that is done.
pub struct BusyLine {
    // Dropped in this order: whoever waits for the line may close the device then.
    work: Arc<dyn KeptWork>,
    _at_work: AtWork,
}

impl BusyLine {
    /// Returns a line with this work.
    pub(crate) fn new(work: Arc<dyn KeptWork>) -> BusyLine {
        BusyLine { _at_work: work.at_work(), work }
    }

    /// Returns the threads of all queues of a backend, with this name.
    pub const fn crew(name: &'static str) -> Crew<BusyLine> {
        Crew::new(name, MOST_THREADS, BusyLine::attend)
    }

    /// Does steps until none is left, or the line is parked.
    fn attend(self) {
        let mut line = self;
        while let Some(awaited) = Arc::clone(&line.work).do_steps() {
            // A parked line may be done before this thread has let go of what it awaits, which keeps the device.
            let at_work = line.work.at_work();
            let back = awaited.park(line);
            drop(awaited);
            drop(at_work);
            match back {
                Some(back) => line = back,
                None => return,
            }
        }
    }
}
