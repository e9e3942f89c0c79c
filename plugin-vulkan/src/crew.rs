//! The threads that do what nobody waits for.

use longshore_plugin_api::{AtWork, Crew, Result, Wake};
use std::sync::Arc;

/// So many threads are started without waiting for others: many queues may have functions of the program or
/// a driver to wait for at the same time.
const MOST_AT_ONCE: usize = 64;

/// The threads of all queues of the process.
static CREW: Crew<Task> = Crew::new("longshore-vk", MOST_AT_ONCE, Task::take);

/// Something that threads of the crew do.
pub(crate) trait Attended: Send + Sync + 'static {
    /// Does what there is to do, and drops `self` before `at_work`: whoever waits for the work of a device closes it when the
    /// last has gone. May block.
    fn attend(self: Arc<Self>, at_work: AtWork);
}

/// Something that a thread attends to, or will. The fields go in this order, see [`Attended::attend`].
pub(crate) struct Task {
    attended: Arc<dyn Attended>,
    at_work: AtWork,
}

impl Task {
    /// Returns a turn, which counts as a thread at work on its device.
    pub(crate) fn new(attended: Arc<dyn Attended>, at_work: AtWork) -> Task {
        Task { attended, at_work }
    }

    /// Has a thread take the turn. Does not block.
    pub(crate) fn call(self) {
        CREW.call(self);
    }

    /// Has a thread take the turn, where none may be there; the turn is dropped if that fails. A thread that has to be woken
    /// is, when the answer is dropped.
    ///
    /// # Errors
    /// `OutOfResources` if no thread is sure to come.
    pub(crate) fn try_call(self) -> Result<Wake<'static>> {
        CREW.try_call(self)
    }

    fn take(self) {
        self.attended.attend(self.at_work);
    }
}
