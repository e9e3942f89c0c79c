//! The line's own thread, which does what nobody waits for.

use super::{Line, State, has_work};
use longshore_plugin_api::AtWork;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// The line's thread lets the driver work on so many batches before it hands over a small one.
const ENOUGH_FLYING: usize = 2;
/// A batch of so many commands is not small.
const ENOUGH_COMMANDS: u32 = 512;

/// What the thread does.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Worker {
    #[default]
    NotStarted,
    Awake,
    Asleep,
}

impl Line {
    /// Sees to it that what is queued is done although nobody waits for it.
    #[inline]
    pub(super) fn rouse(self: &Arc<Line>, state: &mut MutexGuard<'_, State>) {
        if state.taken {
            return;
        }
        match state.worker {
            Worker::Awake => {}
            Worker::Asleep => {
                state.worker = Worker::Awake;
                self.work.notify_one();
            }
            Worker::NotStarted => self.start(state),
        }
    }

    /// Starts the line's thread; without one, the calling thread does the work.
    #[cold]
    fn start(self: &Arc<Line>, state: &mut MutexGuard<'_, State>) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("longshore-vk{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (line, at_work) = (Arc::clone(self), self.device.at_work());
        match thread::Builder::new().name(name.clone()).spawn(move || line.work(at_work)) {
            Ok(_) => state.worker = Worker::Awake,
            Err(error) => {
                log::warn!("thread '{name}' of a queue cannot be started: {error}");
                state.taken = true;
                // A function of the program may have queued more.
                while has_work(state) {
                    self.close_open(state);
                    self.take_steps(state, |_| true);
                }
                state.taken = false;
            }
        }
    }

    /// The life of the line's thread. `at_work` goes last, after all that is the device's.
    fn work(self: Arc<Line>, at_work: AtWork) {
        let mut state = self.state.lock();
        loop {
            if state.taken || !has_work(&state) {
                if state.closed && !state.taken {
                    break;
                }
                state.worker = Worker::Asleep;
                self.work.wait(&mut state);
                state.worker = Worker::Awake;
                continue;
            }
            // If it cannot wait, whoever submits next notices why.
            if let Some(value) = self.is_ahead(&mut state)
                && MutexGuard::unlocked(&mut state, || self.timeline.wait(value)).is_ok()
            {
                continue;
            }
            if state.steps.is_empty() {
                self.close_open(&mut state);
            }
            let mut role = self.take_role(state);
            self.take_steps(&mut role.state, |_| true);
            drop(role);
            state = self.state.lock();
        }
        let tail = state.tail;
        drop(state);
        let _ = self.timeline.wait(tail);
        drop(self);
        drop(at_work);
    }

    /// The value to wait for if the driver has enough to do and the open batch may still grow.
    fn is_ahead(&self, state: &mut MutexGuard<'_, State>) -> Option<u64> {
        let is_small = state.open.as_ref().is_some_and(|open| open.commands() < ENOUGH_COMMANDS);
        if !state.steps.is_empty() || !is_small || state.flying.len() < ENOUGH_FLYING {
            return None;
        }
        let value = state.flying[state.flying.len() - ENOUGH_FLYING].value;
        (!self.timeline.was_seen(value)).then_some(value)
    }
}
