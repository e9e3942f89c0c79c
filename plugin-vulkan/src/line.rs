//! The order of a queue's work, and who hands it to the driver.
//!
//! Work is a list of *steps*, each with a value on the queue's timeline: a batch, which the driver
//! runs, or something that a thread of the host does. What is queued is recorded into the *open*
//! batch, which is closed, and so becomes a step, when something must come behind it, when somebody
//! waits, or when the driver is ready for more.
//!
//! Whoever takes steps from the list holds the line's role; one thread at a time does. It is a thread
//! that waits for the queue and finds nobody at it, or one of those that attend to what nobody waits
//! for, see `worker.rs`. Such a thread goes when there is nothing more to do, and also where the next
//! step waits for what another queue has not come to: it is called again then. A step of the host is
//! done when all before it is done, and then raises the timeline itself; so what waits for a value
//! need not know what it stands for.

mod worker;

use crate::batch::Batch;
use crate::device_core::DeviceCore;
use crate::place::Place;
use crate::timeline::{Awaited, Timeline};
use crate::transfer::CopyJob;
use longshore_plugin_api::{Error, HostFunction, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many empty batches are kept.
const MOST_SPARE: usize = 4;

/// The work of one queue.
pub(crate) struct Line {
    device: Arc<DeviceCore>,
    lane: usize,
    timeline: Arc<Timeline>,
    state: Mutex<State>,
    /// The role was given back, or a step was taken.
    moved: Condvar,
    /// The thread that runs a function of the program; 0 if none does.
    runner: AtomicUsize,
}

#[derive(Default)]
struct State {
    open: Option<Box<Batch>>,
    steps: VecDeque<Step>,
    /// The value of the last step.
    tail: u64,
    /// How many steps of the host are not done.
    host_steps: usize,
    /// Somebody holds the role.
    taken: bool,
    /// How many threads wait for `moved`.
    waiting: usize,
    spare: VecDeque<Box<Batch>>,
    /// What the driver was given, oldest first.
    flying: VecDeque<Box<Batch>>,
    /// The first failure that nobody was told of.
    error: Option<Error>,
    /// A thread does what nobody waits for, or was called to, or will be when what the next step waits for has come.
    attended: bool,
    closed: bool,
}

enum Step {
    Submit(Box<Batch>),
    Host(u64, HostWork),
}

/// What a thread of the host does in a queue's order.
pub(crate) enum HostWork {
    /// Calls a function of the program.
    Function(HostFunction),
    /// Copies what the device cannot.
    Copy(CopyJob),
    /// Waits for a place in another queue that the driver was not given when this was queued.
    Wait(Place),
}

impl Step {
    fn value(&self) -> u64 {
        match self {
            Step::Submit(batch) => batch.value,
            Step::Host(value, _) => *value,
        }
    }
}

impl Line {
    /// An empty line.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn new(device: &Arc<DeviceCore>) -> Result<Arc<Line>> {
        Ok(Arc::new(Line {
            device: Arc::clone(device),
            lane: device.next_lane(),
            timeline: Timeline::new(&device.logical)?,
            state: Mutex::default(),
            moved: Condvar::new(),
            runner: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn device(&self) -> &Arc<DeviceCore> {
        &self.device
    }

    /// Records into the open batch. With `wait`, blocks until that and all before it is done.
    ///
    /// # Errors
    /// Those of `record`, which then has recorded nothing; with `wait` those of
    /// [`Line::synchronize`].
    #[inline]
    pub(crate) fn record(
        self: &Arc<Line>,
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

    /// The same, but if steps of the host are queued, `otherwise` becomes one.
    ///
    /// # Errors
    /// As for [`Line::record`].
    pub(crate) fn record_unless_host_work(
        self: &Arc<Line>,
        record: impl FnOnce(&mut Batch) -> Result<()>,
        otherwise: impl FnOnce() -> HostWork,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if state.host_steps == 0 {
            record(self.open(&mut state)?)?;
        } else {
            self.push_host(&mut state, otherwise());
        }
        self.go_on(state, false)
    }

    /// Queues something for a thread of the host.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn push(self: &Arc<Line>, work: HostWork) -> Result<()> {
        self.device.refuse_if_lost()?;
        let mut state = self.state.lock();
        self.push_host(&mut state, work);
        self.go_on(state, false)
    }

    /// Does something on the calling thread when all that was queued is done, and before what is
    /// queued later. Blocks.
    ///
    /// # Errors
    /// Those of [`Line::synchronize`], before `work`; those of `work`.
    pub(crate) fn exclusively(self: &Arc<Line>, work: impl FnOnce() -> Result<()>) -> Result<()> {
        self.refuse_runner()?;
        let mut state = self.state.lock();
        self.close_open(&mut state);
        let tail = state.tail;
        let mut role = self.take_role(state);
        self.take_steps(&mut role.state, |step| step.value() <= tail);
        let earlier = role.unlocked(|| self.timeline.wait(tail));
        let result = earlier.and_then(|()| role.unlocked(work));
        let earlier = self.take_error(&mut role.state, tail);
        drop(role);
        earlier.map_or(result, Err)
    }

    /// Blocks until all that was queued before the call is done. May run it.
    ///
    /// # Errors
    /// The first failure that nobody was told of; a lost device; `Unsupported` on the thread that
    /// runs a function of this queue, which would wait for itself.
    pub(crate) fn synchronize(self: &Arc<Line>) -> Result<()> {
        self.refuse_runner()?;
        self.settle(self.state.lock())
    }

    /// Whether all that was queued is done.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        self.device.refuse_if_lost()?;
        let state = self.state.lock();
        let is_open = state.open.as_ref().is_some_and(|open| !open.is_empty());
        if is_open || !state.steps.is_empty() || state.host_steps > 0 {
            return Ok(false);
        }
        self.timeline.is_reached(state.tail)
    }

    /// The place behind all that was queued. `mark` may record something just before it.
    ///
    /// # Errors
    /// Those of `mark`; a lost device.
    pub(crate) fn tail(
        self: &Arc<Line>,
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

    /// Makes what is queued from now on wait for a place in a queue, and this queue take over the
    /// failure that it is behind.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn wait_for(self: &Arc<Line>, place: Place) -> Result<()> {
        let (timeline, value) = (&place.timeline, place.value);
        self.device.refuse_if_lost()?;
        // In this order: a failure is noted before its value is reached.
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
    /// `Unsupported` on the thread that runs a function of this queue.
    #[inline]
    pub(crate) fn refuse_runner(&self) -> Result<()> {
        if self.runner.load(Ordering::Relaxed) == this_thread() { Err(own_queue()) } else { Ok(()) }
    }

    /// Sees to it that nobody who drops the line waits for what is still to be done. Nothing may be queued
    /// afterwards.
    pub(crate) fn close(self: &Arc<Line>) {
        let mut state = self.state.lock();
        state.closed = true;
        if !self.timeline.was_seen(state.tail) {
            self.rouse(&mut state);
        }
    }

    /// After something was queued: waits, or sees to it that somebody does it.
    #[inline]
    fn go_on<'a>(self: &'a Arc<Line>, mut state: MutexGuard<'a, State>, wait: bool) -> Result<()> {
        if state.open.as_ref().is_some_and(|open| open.is_full()) {
            self.close_open(&mut state);
        }
        if wait {
            return self.settle(state);
        }
        self.rouse(&mut state);
        Ok(())
    }

    /// Blocks until all that is queued now is done.
    fn settle<'a>(self: &'a Arc<Line>, mut state: MutexGuard<'a, State>) -> Result<()> {
        self.close_open(&mut state);
        let tail = state.tail;
        let is_listed =
            |state: &State| state.steps.front().is_some_and(|step| step.value() <= tail);
        while is_listed(&state) {
            if state.taken {
                self.await_move(&mut state);
            } else {
                let mut role = self.take_role(state);
                self.take_steps(&mut role.state, |step| step.value() <= tail);
                drop(role);
                state = self.state.lock();
            }
        }
        drop(state);
        let waited = self.timeline.wait(tail);
        let mut state = self.state.lock();
        // On a lost device nothing waits for a step of the host that another thread still does.
        while waited.is_err() && state.taken {
            self.await_move(&mut state);
        }
        waited?;
        self.reap(&mut state);
        self.take_error(&mut state, tail).map_or(Ok(()), Err)
    }

    /// The first failure that nobody was told of, for who has waited for `tail`.
    fn take_error(&self, state: &mut State, tail: u64) -> Option<Error> {
        let error = state.error.take()?;
        self.timeline.failures_are_told(tail);
        Some(error)
    }

    /// Blocks until the role is given back or a step is taken.
    fn await_move(&self, state: &mut MutexGuard<'_, State>) {
        state.waiting += 1;
        self.moved.wait(state);
        state.waiting -= 1;
    }

    /// Takes the role; blocks while another thread has it.
    fn take_role<'a>(self: &'a Arc<Line>, mut state: MutexGuard<'a, State>) -> Role<'a> {
        while state.taken {
            self.await_move(&mut state);
        }
        state.taken = true;
        Role { line: self, state }
    }

    /// The open batch.
    fn open<'a>(&self, state: &'a mut MutexGuard<'_, State>) -> Result<&'a mut Batch> {
        self.device.refuse_if_lost()?;
        if state.open.is_none() {
            state.open = Some(self.batch(state)?);
        }
        Ok(state.open.as_mut().expect("it was just put there"))
    }

    /// An empty batch: one whose commands are done, or a new one.
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
        Batch::new(&self.device, self.device.lane(self.lane).family).map(Box::new)
    }

    /// Takes back what the driver has done, and what that kept of memory.
    fn reap(&self, state: &mut MutexGuard<'_, State>) {
        while state.flying.front().is_some_and(|batch| self.timeline.was_seen(batch.value)) {
            let Some(mut batch) = state.flying.pop_front() else { return };
            if state.spare.len() < MOST_SPARE && batch.reset() {
                state.spare.push_back(batch);
            }
        }
    }

    /// Makes the open batch a step, if there is anything in it.
    fn close_open(&self, state: &mut MutexGuard<'_, State>) {
        if state.open.as_ref().is_none_or(|open| open.is_empty()) {
            return;
        }
        let Some(mut batch) = state.open.take() else { return };
        state.tail += 1;
        batch.value = state.tail;
        state.steps.push_back(Step::Submit(batch));
    }

    fn push_host(&self, state: &mut MutexGuard<'_, State>, work: HostWork) {
        self.close_open(state);
        state.tail += 1;
        state.host_steps += 1;
        let value = state.tail;
        state.steps.push_back(Step::Host(value, work));
    }

    /// Does the steps that are wanted, from the first on, until one is not. The role is the caller's.
    fn take_steps(
        self: &Arc<Line>,
        state: &mut MutexGuard<'_, State>,
        wanted: impl Fn(&Step) -> bool,
    ) {
        while state.steps.front().is_some_and(&wanted) {
            let Some(step) = state.steps.pop_front() else { return };
            match step {
                Step::Submit(batch) => self.submit(state, batch),
                Step::Host(value, HostWork::Wait(place)) => self.wait_in_turn(state, value, place),
                Step::Host(value, work) => self.run(state, value, work),
            }
            if state.waiting > 0 {
                self.moved.notify_all();
            }
        }
    }

    /// Hands a batch to the driver.
    fn submit(&self, state: &mut MutexGuard<'_, State>, mut batch: Box<Batch>) {
        let value = batch.value;
        let result = MutexGuard::unlocked(state, || {
            batch.finish()?;
            batch.submit(self.lane, &self.timeline)
        });
        if result.is_ok() {
            state.flying.push_back(batch);
            return;
        }
        self.note(state, value, result);
        batch.skip();
        // What waits for the value must not wait for ever. On a lost device it does not.
        let _ = MutexGuard::unlocked(state, || {
            self.timeline.wait(value - 1)?;
            self.timeline.signal(value)
        });
        if batch.reset() {
            state.spare.push_back(batch);
        }
    }

    /// Waits for a place in another queue: leaves that to the driver if it can, and it was not reached yet.
    fn wait_in_turn(self: &Arc<Line>, state: &mut MutexGuard<'_, State>, value: u64, place: Place) {
        if !place.timeline.was_seen(place.value)
            && self.is_for_the_driver(&place)
            && let Ok(mut batch) = self.batch(state)
        {
            batch.waits.push((Arc::clone(&place.timeline), place.value));
            batch.value = value;
            state.host_steps -= 1;
            self.submit(state, batch);
        } else {
            self.run(state, value, HostWork::Wait(place));
        }
    }

    /// Whether the driver can wait for a place: it was given it, and will reach it without a failure, but for the loss of the
    /// device.
    fn is_for_the_driver(&self, place: &Place) -> bool {
        Arc::ptr_eq(place.timeline.device(), &self.device.logical)
            && place.timeline.is_submitted(place.value)
            && place.failure().is_none()
    }

    /// How far a place must come before a thread need not block for it.
    fn awaited(&self, place: &Place) -> Option<Awaited> {
        if place.timeline.is_given_up() {
            return None;
        }
        if !place.timeline.is_submitted(place.value) {
            return Some(Awaited::Submitted);
        }
        let is_reached = place.timeline.was_seen(place.value);
        (!is_reached && !self.is_for_the_driver(place)).then_some(Awaited::Reached)
    }

    /// Whether a step blocks nobody for the sake of another queue.
    fn is_free(&self, step: &Step) -> bool {
        match step {
            Step::Host(_, HostWork::Wait(place)) => self.awaited(place).is_none(),
            _ => true,
        }
    }

    /// Does a step of the host when all before it is done.
    fn run(&self, state: &mut MutexGuard<'_, State>, value: u64, work: HostWork) {
        let result = MutexGuard::unlocked(state, || {
            let before = self.timeline.wait(value - 1);
            match work {
                // Called also if the device was lost: whoever queued it was promised that.
                HostWork::Function(function) => {
                    self.runner.store(this_thread(), Ordering::Relaxed);
                    function.call();
                    self.runner.store(0, Ordering::Relaxed);
                    before
                }
                HostWork::Copy(copy) => before.and_then(|()| copy.run()),
                HostWork::Wait(place) => before.and_then(|()| place.wait()),
            }
        });
        state.host_steps -= 1;
        self.note(state, value, result);
        let signalled = MutexGuard::unlocked(state, || self.timeline.signal(value));
        self.note(state, value, signalled);
    }

    /// Keeps a failure of the work of this value for the next that asks. To be called before the
    /// timeline is raised: who then finds a step done is told of its failure.
    fn note(&self, state: &mut State, value: u64, result: Result<()>) {
        if let Err(error) = result {
            log::warn!("{error}");
            self.timeline.note_failure(value, &error);
            state.error.get_or_insert(error);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Whoever waited for the last work has done so; this is for work that failed in between.
        let submitted = self.state.get_mut().flying.back().map_or(0, |batch| batch.value);
        let _ = self.timeline.wait(submitted);
    }
}

/// The right to take steps. Given back when it is dropped.
struct Role<'a> {
    line: &'a Arc<Line>,
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
            self.line.moved.notify_all();
        }
        // Nobody was roused for what was queued while the role was taken.
        if has_work(&self.state) {
            self.line.rouse(&mut self.state);
        }
    }
}

fn has_work(state: &State) -> bool {
    !state.steps.is_empty() || state.open.as_ref().is_some_and(|open| !open.is_empty())
}

/// A number that no other living thread has; not 0.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cold]
fn own_queue() -> Error {
    Error::would_deadlock("waiting for a queue", "the same queue")
}
