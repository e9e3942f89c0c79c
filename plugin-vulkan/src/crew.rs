//! The threads that process queues without a waiting caller.

use longshore_plugin_api::{AtWork, Crew, Result, Wake};
use std::sync::Arc;

/// Number of threads that start without waiting for other threads. Many queues may have to wait for
/// host functions or a driver at the same time.
const MOST_AT_ONCE: usize = 64;

/// The threads of all queues of the process.
static CREW: Crew<Task> = Crew::new("longshore-vk", MOST_AT_ONCE, Task::take);

/// Work for threads of the crew.
pub(crate) trait QueuedWork: Send + Sync + 'static {
    /// Processes the pending work, and drops `self` before `at_work`: the caller that waits for a
    /// device's work closes the device after the last drop. May block.
    fn attend(self: Arc<Self>, at_work: AtWork);
}

/// One call of [`QueuedWork::attend`]. The fields are dropped in this order, as that function
/// requires.
pub(crate) struct Task {
    attended: Arc<dyn QueuedWork>,
    at_work: AtWork,
}

impl Task {
    /// Creates a task, which counts as a thread at work on its device.
    pub(crate) fn new(attended: Arc<dyn QueuedWork>, at_work: AtWork) -> Task {
        Task { attended, at_work }
    }

    /// Gives the task to a thread of the crew. Does not block.
    pub(crate) fn call(self) {
        CREW.call(self);
    }

    /// Gives the task to a thread of the crew, if possible; the task is dropped on failure.
    /// Dropping the result wakes a sleeping thread.
    ///
    /// # Errors
    /// `OutOfResources` if no thread can take the task.
    pub(crate) fn try_call(self) -> Result<Wake<'static>> {
        CREW.try_call(self)
    }

    fn take(self) {
        self.attended.attend(self.at_work);
    }
}
