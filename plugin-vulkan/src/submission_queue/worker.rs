//! The threads that do what nobody waits for.

use super::{Command, HostWork, State, SubmissionQueue, has_work};
use crate::crew::{Attended, Task};
use crate::place::Place;
use crate::timeline::Awaited;
use longshore_plugin_api::AtWork;
use parking_lot::MutexGuard;
use std::sync::Arc;

/// The driver may work on so many batches before a small one is handed over that nobody waits for.
const ENOUGH_FLYING: usize = 2;
/// A batch of so many commands is not small.
const ENOUGH_COMMANDS: u32 = 512;
impl SubmissionQueue {
    /// Sees to it that what is queued is done although nobody waits for it.
    #[inline]
    pub(super) fn rouse(self: &Arc<SubmissionQueue>, state: &mut MutexGuard<'_, State>) {
        if !state.taken && !state.attended {
            self.call(state);
        }
    }

    /// Has a thread of the crew attend to the line; without one, the calling thread does the work.
    fn call(self: &Arc<SubmissionQueue>, state: &mut MutexGuard<'_, State>) {
        let queue: Arc<SubmissionQueue> = Arc::clone(self);
        match Task::new(queue, self.device.at_work()).try_call() {
            // The thread finds the line attended to, as it needs the lock.
            Ok(_wake) => state.attended = true,
            Err(error) => {
                log::warn!("{error}");
                state.taken = true;
                // A function of the program may have queued more.
                while has_work(state) {
                    self.close_open(state);
                    self.take_commands(state, |_| true);
                }
                state.taken = false;
            }
        }
    }

    /// Returns the value to wait for if the driver has enough to do and the open batch may still grow.
    fn is_ahead(&self, state: &State) -> Option<u64> {
        let is_small = state.open.as_ref().is_some_and(|open| open.commands() < ENOUGH_COMMANDS);
        if !state.commands.is_empty() || !is_small || state.flying.len() < ENOUGH_FLYING {
            return None;
        }
        let value = state.flying[state.flying.len() - ENOUGH_FLYING].value;
        (!self.timeline.was_seen(value)).then_some(value)
    }

    /// Returns the place in another queue that the first step would block a thread for.
    fn obstacle(&self, state: &State) -> Option<(Place, Awaited)> {
        match state.commands.front() {
            Some(Command::Host(_, HostWork::Wait(place))) => {
                Some((place.clone(), self.awaited(place)?))
            }
            _ => None,
        }
    }
}

impl Attended for SubmissionQueue {
    fn attend(self: Arc<SubmissionQueue>, at_work: AtWork) {
        attend(self, at_work);
    }
}

/// Does what a line has to do until there is nothing more, or only what waits for another queue: then a thread is called again
/// when that has come so far.
fn attend(queue: Arc<SubmissionQueue>, at_work: AtWork) {
    // Whoever goes on with a parked line may be done before this thread has gone from here.
    let _at_work = queue.device.at_work();
    let mut called = Task::new(Arc::clone(&queue) as Arc<dyn Attended>, at_work);
    let queue = queue;
    let mut state = queue.state.lock();
    while !state.taken && has_work(&state) {
        if let Some((place, awaited)) = queue.obstacle(&state) {
            // Still attended to: by whoever is called then, maybe at this moment.
            match place.timeline.call_when(awaited, place.value, called) {
                Ok(()) => return,
                Err(back) => called = back,
            }
        }
        // If it cannot wait, whoever submits next notices why.
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
