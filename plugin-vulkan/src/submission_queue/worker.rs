//! The threads that process a queue without a waiting caller.

use super::{Command, HostWork, State, SubmissionQueue, has_work};
use crate::place::Place;
use crate::timeline::WaitStage;
use crate::worker_pool::{QueuedWork, Task};
use longshore_plugin_api::WorkerGuard;
use parking_lot::MutexGuard;
use std::sync::Arc;

/// Number of batches in flight from which a small open batch stays open, if no caller waits.
const ENOUGH_FLYING: usize = 2;
/// Number of commands from which a batch is not small.
const ENOUGH_COMMANDS: u32 = 512;
impl SubmissionQueue {
    /// Ensures that queued work is done without a waiting caller.
    #[inline]
    pub(super) fn rouse(self: &Arc<SubmissionQueue>, state: &mut MutexGuard<'_, State>) {
        if !state.taken && !state.attended {
            self.call(state);
        }
    }

    /// Calls a thread of the worker pool to attend to the queue; without one, the calling thread
    /// does the work.
    fn call(self: &Arc<SubmissionQueue>, state: &mut MutexGuard<'_, State>) {
        let queue: Arc<SubmissionQueue> = Arc::clone(self);
        match Task::new(queue, self.device.worker_guard()).try_call() {
            // The thread needs the lock, so it finds the queue attended.
            Ok(_wake) => state.attended = true,
            Err(error) => {
                log::warn!("{error}");
                state.taken = true;
                // A host function may have queued more work.
                while has_work(state) {
                    self.close_open(state);
                    self.take_commands(state, |_| true);
                }
                state.taken = false;
            }
        }
    }

    /// Returns a timeline value to wait for if the driver has enough work and the open batch may
    /// still grow.
    fn is_ahead(&self, state: &State) -> Option<u64> {
        let is_small = state.open.as_ref().is_some_and(|open| open.commands() < ENOUGH_COMMANDS);
        if !state.commands.is_empty() || !is_small || state.flying.len() < ENOUGH_FLYING {
            return None;
        }
        let value = state.flying[state.flying.len() - ENOUGH_FLYING].value;
        (!self.timeline.was_seen(value)).then_some(value)
    }

    /// Returns the place in another queue for which the first command would block a thread.
    fn obstacle(&self, state: &State) -> Option<(Place, WaitStage)> {
        match state.commands.front() {
            Some(Command::Host(_, HostWork::Wait(place))) => {
                Some((place.clone(), self.awaited(place)?))
            }
            _ => None,
        }
    }
}

impl QueuedWork for SubmissionQueue {
    fn attend(self: Arc<SubmissionQueue>, worker_guard: WorkerGuard) {
        attend(self, worker_guard);
    }
}

/// Processes a queue until no work is left, or the next command waits for another queue. In the
/// second case, a thread is called again when the wait is over.
fn attend(queue: Arc<SubmissionQueue>, worker_guard: WorkerGuard) {
    // The next thread of a parked queue may be done before this function returns.
    let _at_work = queue.device.worker_guard();
    let mut called = Task::new(Arc::clone(&queue) as Arc<dyn QueuedWork>, worker_guard);
    let queue = queue;
    let mut state = queue.state.lock();
    while !state.taken && has_work(&state) {
        if let Some((place, awaited)) = queue.obstacle(&state) {
            // The queue stays attended, by the thread that is called then, perhaps at this moment.
            match place.timeline.call_when(awaited, place.value, called) {
                Ok(()) => return,
                Err(back) => called = back,
            }
        }
        // If this wait fails, the next submission reports the reason.
        if let Some(value) = queue.is_ahead(&state)
            && MutexGuard::unlocked(&mut state, || queue.timeline.wait(value)).is_ok()
        {
            continue;
        }
        if state.commands.is_empty() {
            queue.close_open(&mut state);
        }
        let mut role = queue.take_role(state);
        queue.take_commands(&mut role.state, |command| queue.is_free(command));
        drop(role);
        state = queue.state.lock();
    }
    state.attended = false;
    let (tail, closed) = (state.tail, state.closed);
    drop(state);
    if closed {
        let _ = queue.timeline.wait(tail);
    }
}
