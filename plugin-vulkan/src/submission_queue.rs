//! Submission queues: the order of a queue's work, and its submission to the driver.
//!
//! Work is a list of *commands*, each with a value on the queue's timeline. A command is a batch,
//! which the driver runs, or work of a host thread. New work is recorded into the *open* batch. The
//! batch is closed, and so becomes a command, in three cases: a host command follows, a caller
//! waits, or the driver is ready for more.
//!
//! The thread that takes commands from the list holds the role; one thread at a time does. It is a
//! thread that waits for the queue and finds the role free, or an attending thread of the worker
//! pool, see `worker.rs`. An attending thread leaves when no work is left, or if the next command
//! waits for a place that another queue has not come to. It is called again when that queue has
//! come so far. A host command is done when all work before it is done, and then raises the
//! timeline itself. So a wait for a value is independent of the command behind it.

mod worker;

use crate::batch::Batch;
use crate::device_core::DeviceCore;
use crate::place::Place;
use crate::rect::RectJob;
use crate::timeline::{Timeline, WaitStage};
use crate::transfer::CopyJob;
use longshore_plugin_api::{Error, HostFunction, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most empty batches that are kept.
const MOST_SPARE: usize = 4;

/// The work of one queue.
pub(crate) struct SubmissionQueue {
    device: Arc<DeviceCore>,
    device_queue: usize,
    timeline: Arc<Timeline>,
    state: Mutex<State>,
    /// Signals that the role was returned, or a command was taken.
    moved: Condvar,
    /// The thread that runs a host function; 0 if no thread does.
    runner: AtomicUsize,
}

#[derive(Default)]
struct State {
    open: Option<Box<Batch>>,
    commands: VecDeque<Command>,
    /// The value of the last command.
    tail: u64,
    /// Number of host commands that are not done.
    host_commands: usize,
    /// Whether a thread holds the role.
    taken: bool,
    /// Number of threads that wait for `moved`.
    waiting: usize,
    spare: VecDeque<Box<Batch>>,
    /// The submitted batches, oldest first.
    flying: VecDeque<Box<Batch>>,
    /// The first pending failure.
    error: Option<Error>,
    /// Whether a thread attends to the queue, was called to, or will be called when the wait of the
    /// next command is over.
    attended: bool,
    closed: bool,
}

enum Command {
    Submit(Box<Batch>),
    Host(u64, HostWork),
}

/// Work of a host thread in a queue's order.
pub(crate) enum HostWork {
    /// A call of a host function.
    Function(HostFunction),
    /// A copy that the device cannot do.
    Copy(CopyJob),
    Rect(RectJob),
    /// A wait for a place in another queue that was not submitted to the driver when the wait was
    /// queued.
    Wait(Place),
}

impl Command {
    fn value(&self) -> u64 {
        match self {
            Command::Submit(batch) => batch.value,
            Command::Host(value, _) => *value,
        }
    }
}

impl SubmissionQueue {
    /// Creates an empty submission queue.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn new(device: &Arc<DeviceCore>) -> Result<Arc<SubmissionQueue>> {
        Ok(Arc::new(SubmissionQueue {
            device: Arc::clone(device),
            device_queue: device.next_device_queue(),
            timeline: Timeline::new(&device.logical)?,
            state: Mutex::default(),
            moved: Condvar::new(),
            runner: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn device(&self) -> &Arc<DeviceCore> {
        &self.device
    }

    /// Records into the open batch. With `wait`, blocks until that and all earlier work is done.
    ///
    /// # Errors
    /// The errors of `record`, which then has recorded nothing; with `wait` also the errors of
    /// [`SubmissionQueue::synchronize`].
    #[inline]
    pub(crate) fn record(
        self: &Arc<SubmissionQueue>,
        wait: bool,
        record: impl FnOnce(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        if wait {
            self.refuse_runner()?;
        }
        let mut state = self.state.lock();
        record(self.open(&mut state)?)?;
        self.go_on(state, wait)
    }

    /// Records into the open batch, unless host commands are queued: then `otherwise` becomes one.
    ///
    /// # Errors
    /// As for [`SubmissionQueue::record`].
    pub(crate) fn record_unless_host_work(
        self: &Arc<SubmissionQueue>,
        record: impl FnOnce(&mut Batch) -> Result<()>,
        otherwise: impl FnOnce() -> HostWork,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if state.host_commands == 0 {
            record(self.open(&mut state)?)?;
        } else {
            self.push_host(&mut state, otherwise());
        }
        self.go_on(state, false)
    }

    /// Adds work for a host thread.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn push(self: &Arc<SubmissionQueue>, work: HostWork) -> Result<()> {
        self.device.refuse_if_lost()?;
        let mut state = self.state.lock();
        self.push_host(&mut state, work);
        self.go_on(state, false)
    }

    /// Runs `work` on the calling thread when all queued work is done, and before any later work.
    /// Blocks.
    ///
    /// # Errors
    /// The errors of [`SubmissionQueue::synchronize`], before `work`; the errors of `work`.
    pub(crate) fn exclusively(
        self: &Arc<SubmissionQueue>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.refuse_runner()?;
        let mut state = self.state.lock();
        self.close_open(&mut state);
        let tail = state.tail;
        let mut role = self.take_role(state);
        self.take_commands(&mut role.state, |command| command.value() <= tail);
        let earlier = role.unlocked(|| self.timeline.wait(tail));
        let result = earlier.and_then(|()| role.unlocked(work));
        let earlier = self.take_error(&mut role.state, tail);
        drop(role);
        earlier.map_or(result, Err)
    }

    /// Blocks until all work queued before the call is done. May run it.
    ///
    /// # Errors
    /// The first pending failure, or a lost device. `Unsupported` on the thread that runs a host
    /// function of this queue, which would wait for itself.
    pub(crate) fn synchronize(self: &Arc<SubmissionQueue>) -> Result<()> {
        self.refuse_runner()?;
        self.finish(self.state.lock())
    }

    /// Returns whether all queued work is done.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        self.device.refuse_if_lost()?;
        let state = self.state.lock();
        let is_open = state.open.as_ref().is_some_and(|open| !open.is_empty());
        if is_open || !state.commands.is_empty() || state.host_commands > 0 {
            return Ok(false);
        }
        self.timeline.is_reached(state.tail)
    }

    /// Returns the place after all queued work. `mark` may record a command just before it.
    ///
    /// # Errors
    /// The errors of `mark`; a lost device.
    pub(crate) fn tail(
        self: &Arc<SubmissionQueue>,
        mark: Option<impl FnOnce(&mut Batch) -> Result<()>>,
    ) -> Result<Place> {
        self.device.refuse_if_lost()?;
        let mut state = self.state.lock();
        if let Some(mark) = mark {
            mark(self.open(&mut state)?)?;
        }
        self.close_open(&mut state);
        let place = Place::new(&self.timeline, state.tail);
        self.go_on(state, false)?;
        Ok(place)
    }

    /// Makes later work wait for a place in a queue. This queue also takes over a failure before
    /// the place.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn wait_for(self: &Arc<SubmissionQueue>, place: Place) -> Result<()> {
        let (timeline, value) = (&place.timeline, place.value);
        self.device.refuse_if_lost()?;
        // The order of these calls matters: a failure is recorded before its value is reached.
        let is_reached = place.is_reached()?;
        if Arc::ptr_eq(timeline, &self.timeline) || (is_reached && place.failure().is_none()) {
            return Ok(());
        }
        let mut state = self.state.lock();
        if self.is_for_the_driver(&place) {
            self.close_open(&mut state);
            self.open(&mut state)?.waits.push((Arc::clone(timeline), value));
        } else {
            self.push_host(&mut state, HostWork::Wait(place));
        }
        self.go_on(state, false)
    }

    /// # Errors
    /// `Unsupported` on the thread that runs a host function of this queue.
    #[inline]
    pub(crate) fn refuse_runner(&self) -> Result<()> {
        if self.runner.load(Ordering::Relaxed) == this_thread() { Err(own_queue()) } else { Ok(()) }
    }

    /// Ensures that dropping the queue waits for no remaining work. No work may be queued
    /// afterwards.
    pub(crate) fn close(self: &Arc<SubmissionQueue>) {
        let mut state = self.state.lock();
        state.closed = true;
        if !self.timeline.was_seen(state.tail) {
            self.rouse(&mut state);
        }
    }

    /// Continues after work was queued: waits, or ensures that a thread processes it.
    #[inline]
    fn go_on<'a>(
        self: &'a Arc<SubmissionQueue>,
        mut state: MutexGuard<'a, State>,
        wait: bool,
    ) -> Result<()> {
        if state.open.as_ref().is_some_and(|open| open.is_full()) {
            self.close_open(&mut state);
        }
        if wait {
            return self.finish(state);
        }
        self.rouse(&mut state);
        Ok(())
    }

    /// Blocks until all work queued so far is done.
    fn finish<'a>(self: &'a Arc<SubmissionQueue>, mut state: MutexGuard<'a, State>) -> Result<()> {
        self.close_open(&mut state);
        let tail = state.tail;
        let is_listed =
            |state: &State| state.commands.front().is_some_and(|command| command.value() <= tail);
        while is_listed(&state) {
            if state.taken {
                self.await_move(&mut state);
            } else {
                let mut role = self.take_role(state);
                self.take_commands(&mut role.state, |command| command.value() <= tail);
                drop(role);
                state = self.state.lock();
            }
        }
        drop(state);
        let waited = self.timeline.wait(tail);
        let mut state = self.state.lock();
        // On a lost device, the wait does not cover a host command that another thread still runs.
        while waited.is_err() && state.taken {
            self.await_move(&mut state);
        }
        waited?;
        self.reap(&mut state);
        self.take_error(&mut state, tail).map_or(Ok(()), Err)
    }

    /// Takes the first pending failure, for a caller that has waited for `tail`.
    fn take_error(&self, state: &mut State, tail: u64) -> Option<Error> {
        let error = state.error.take()?;
        self.timeline.note_reported(tail);
        Some(error)
    }

    /// Blocks until the role is returned or a command is taken.
    fn await_move(&self, state: &mut MutexGuard<'_, State>) {
        state.waiting += 1;
        self.moved.wait(state);
        state.waiting -= 1;
    }

    /// Takes the role; blocks while another thread holds it.
    fn take_role<'a>(self: &'a Arc<SubmissionQueue>, mut state: MutexGuard<'a, State>) -> Role<'a> {
        while state.taken {
            self.await_move(&mut state);
        }
        state.taken = true;
        Role { queue: self, state }
    }

    /// Returns the open batch.
    fn open<'a>(&self, state: &'a mut MutexGuard<'_, State>) -> Result<&'a mut Batch> {
        self.device.refuse_if_lost()?;
        if state.open.is_none() {
            state.open = Some(self.batch(state)?);
        }
        Ok(state.open.as_mut().expect("it was just put there"))
    }

    /// Returns an empty batch, reused or new.
    fn batch(&self, state: &mut MutexGuard<'_, State>) -> Result<Box<Batch>> {
        if let Some(batch) = state.spare.pop_front() {
            return Ok(batch);
        }
        let oldest = state.flying.front().map(|batch| batch.value);
        if let Some(value) = oldest
            && self.timeline.is_reached(value)?
            && let Some(mut batch) = state.flying.pop_front()
            && batch.reset()
        {
            return Ok(batch);
        }
        Batch::new(&self.device, self.device.device_queue(self.device_queue).family).map(Box::new)
    }

    /// Recycles finished batches and their memory.
    fn reap(&self, state: &mut MutexGuard<'_, State>) {
        while state.flying.front().is_some_and(|batch| self.timeline.was_seen(batch.value)) {
            let Some(mut batch) = state.flying.pop_front() else { return };
            if state.spare.len() < MOST_SPARE && batch.reset() {
                state.spare.push_back(batch);
            }
        }
    }

    /// Makes the open batch a command, unless it is empty.
    fn close_open(&self, state: &mut MutexGuard<'_, State>) {
        if state.open.as_ref().is_none_or(|open| open.is_empty()) {
            return;
        }
        let Some(mut batch) = state.open.take() else { return };
        state.tail += 1;
        batch.value = state.tail;
        state.commands.push_back(Command::Submit(batch));
    }

    fn push_host(&self, state: &mut MutexGuard<'_, State>, work: HostWork) {
        self.close_open(state);
        state.tail += 1;
        state.host_commands += 1;
        let value = state.tail;
        state.commands.push_back(Command::Host(value, work));
    }

    /// Runs the wanted commands, from the first on, until a command is not wanted. The caller holds
    /// the role.
    fn take_commands(
        self: &Arc<SubmissionQueue>,
        state: &mut MutexGuard<'_, State>,
        wanted: impl Fn(&Command) -> bool,
    ) {
        while state.commands.front().is_some_and(&wanted) {
            let Some(command) = state.commands.pop_front() else { return };
            match command {
                Command::Submit(batch) => self.submit(state, batch),
                Command::Host(value, HostWork::Wait(place)) => {
                    self.wait_in_turn(state, value, place)
                }
                Command::Host(value, work) => self.run(state, value, work),
            }
            if state.waiting > 0 {
                self.moved.notify_all();
            }
        }
    }

    /// Submits a batch to the driver.
    fn submit(&self, state: &mut MutexGuard<'_, State>, mut batch: Box<Batch>) {
        let value = batch.value;
        let result = MutexGuard::unlocked(state, || {
            batch.finish()?;
            batch.submit(self.device_queue, &self.timeline)
        });
        if result.is_ok() {
            state.flying.push_back(batch);
            return;
        }
        self.note(state, value, result);
        batch.skip();
        // Other threads must not wait forever for the value. On a lost device they do not.
        let _ = MutexGuard::unlocked(state, || {
            self.timeline.wait(value - 1)?;
            self.timeline.signal(value)
        });
        if batch.reset() {
            state.spare.push_back(batch);
        }
    }

    /// Waits for a place in another queue. Leaves the wait to the driver if that is possible and
    /// the place is not reached.
    fn wait_in_turn(
        self: &Arc<SubmissionQueue>,
        state: &mut MutexGuard<'_, State>,
        value: u64,
        place: Place,
    ) {
        if !place.timeline.was_seen(place.value)
            && self.is_for_the_driver(&place)
            && let Ok(mut batch) = self.batch(state)
        {
            batch.waits.push((Arc::clone(&place.timeline), place.value));
            batch.value = value;
            state.host_commands -= 1;
            self.submit(state, batch);
        } else {
            self.run(state, value, HostWork::Wait(place));
        }
    }

    /// Returns whether the driver can wait for a place: its work is submitted, and will reach the
    /// place without a failure except the loss of the device.
    fn is_for_the_driver(&self, place: &Place) -> bool {
        Arc::ptr_eq(place.timeline.device(), &self.device.logical)
            && place.timeline.is_submitted(place.value)
            && place.failure().is_none()
    }

    /// Returns the state that a place must reach before a thread need not block for it.
    fn awaited(&self, place: &Place) -> Option<WaitStage> {
        if place.timeline.is_given_up() {
            return None;
        }
        if !place.timeline.is_submitted(place.value) {
            return Some(WaitStage::Submitted);
        }
        let is_reached = place.timeline.was_seen(place.value);
        (!is_reached && !self.is_for_the_driver(place)).then_some(WaitStage::Reached)
    }

    /// Returns whether a command blocks no thread because of another queue.
    fn is_free(&self, command: &Command) -> bool {
        match command {
            Command::Host(_, HostWork::Wait(place)) => self.awaited(place).is_none(),
            _ => true,
        }
    }

    /// Runs a host command when all work before it is done.
    fn run(&self, state: &mut MutexGuard<'_, State>, value: u64, work: HostWork) {
        let result = MutexGuard::unlocked(state, || {
            let before = self.timeline.wait(value - 1);
            match work {
                // The function is called even on a lost device, as its caller was promised.
                HostWork::Function(function) => {
                    self.runner.store(this_thread(), Ordering::Relaxed);
                    function.call();
                    self.runner.store(0, Ordering::Relaxed);
                    before
                }
                HostWork::Copy(copy) => before.and_then(|()| copy.run()),
                HostWork::Rect(rect) => before.map(|()| rect.run()),
                HostWork::Wait(place) => before.and_then(|()| place.wait()),
            }
        });
        state.host_commands -= 1;
        self.note(state, value, result);
        let signalled = MutexGuard::unlocked(state, || self.timeline.signal(value));
        self.note(state, value, signalled);
    }

    /// Keeps a failure of the work of this value as pending. Must be called before the timeline is
    /// raised: a caller that finds a command done then also finds its failure.
    fn note(&self, state: &mut State, value: u64, result: Result<()>) {
        if let Err(error) = result {
            log::warn!("{error}");
            self.timeline.note_failure(value, &error);
            state.error.get_or_insert(error);
        }
    }
}

impl Drop for SubmissionQueue {
    fn drop(&mut self) {
        // Callers have waited for the last work; this wait is for work that failed in between.
        let submitted = self.state.get_mut().flying.back().map_or(0, |batch| batch.value);
        let _ = self.timeline.wait(submitted);
    }
}

/// The right to take commands. Dropping it returns the role.
struct Role<'a> {
    queue: &'a Arc<SubmissionQueue>,
    state: MutexGuard<'a, State>,
}

impl Role<'_> {
    fn unlocked<R>(&mut self, body: impl FnOnce() -> R) -> R {
        MutexGuard::unlocked(&mut self.state, body)
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        self.state.taken = false;
        if self.state.waiting > 0 {
            self.queue.moved.notify_all();
        }
        // No thread was called for work that was queued while the role was taken.
        if has_work(&self.state) {
            self.queue.rouse(&mut self.state);
        }
    }
}

fn has_work(state: &State) -> bool {
    !state.commands.is_empty() || state.open.as_ref().is_some_and(|open| !open.is_empty())
}

/// Returns a number that no other living thread has, and never 0.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cold]
fn own_queue() -> Error {
    Error::would_deadlock("waiting for a queue", "the same queue")
}
