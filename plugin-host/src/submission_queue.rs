//! Submission queues: the commands of a queue, and the choice of the thread that runs them.
//!
//! The thread that runs commands holds the submission queue's [`Role`]; one thread at a time does.
//! Three kinds of threads take the role:
//!
//! - a thread that waits for its command on an idle queue: it runs the command in place
//!   ([`SubmissionQueue::idle_role`]). That takes two atomic operations, no lock, and no captured
//!   values;
//! - a thread that synchronizes while no thread runs the pending commands: it runs them itself;
//! - a thread of the [`worker_pool`](crate::worker_pool) that *attends* to the queue, called when a
//!   command is queued and no thread attends. With no command left it spins for a moment, then
//!   sleeps until a ring, and leaves after a time without one. If the next command waits for
//!   another queue, the submission queue is *parked*. Its thread leaves at once, and the worker
//!   pool is called again when the awaited record is reached.
//!
//! The state is one word, `status`. *Pending* commands lie behind a lock, which is held to add one
//! command or to take all of them. Two rules keep the queue running:
//!
//! - a thread that makes a queue pending while no thread runs it rings;
//! - a thread that returns the role of a pending queue rings.
//!
//! An attending thread sleeps or leaves only while neither rule concerns it, so no command is left
//! behind. A parked queue keeps the role, and the next attending thread takes it over.

use crate::command::{Batch, Failures};
use crate::execute::words::Words;
use crate::execute::{Engine, Job, Launch};
use crate::record::Record;
use crate::spin::spin_until;
use crate::worker_pool::{QueuedCommands, worker_pool};
use longshore_plugin_api::{Arguments, Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A thread holds the role.
const RUNNING: u32 = 1;
/// Commands exist that no thread has taken.
const PENDING: u32 = 2;
/// The attending thread sleeps.
const ASLEEP: u32 = 4;
/// The queue was dropped: the attending thread leaves when no command is left.
const CLOSED: u32 = 8;
/// A command failed, and its error is pending.
const FAILED: u32 = 16;
/// The holder of the role runs one command in place, which was never pending.
const IN_PLACE: u32 = 32;
/// A thread attends to the queue, or was called to attend.
const ATTENDED: u32 = 64;

/// Time that an attending thread spins before it sleeps. Waking it costs the waking thread some
/// microseconds.
const SPIN_TIME: Duration = Duration::from_micros(40);
/// Time that an attending thread sleeps before it leaves.
const STAY: Duration = Duration::from_secs(1);

/// The commands of one queue and the threads that run them.
pub(crate) struct SubmissionQueue {
    engine: Arc<Engine>,
    job: Arc<Job>,
    status: AtomicU32,
    /// The thread that holds the role; 0 if no thread does.
    runner: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Batch,
    /// Number of commands that were ever pending.
    pushed: u64,
    /// Memory for threads that run commands without attending to the queue.
    spare: Batch,
    /// Memory for the attending thread.
    own: Batch,
    /// The commands of a parked queue; the first one waits.
    parked: Option<Batch>,
    /// The attending thread.
    attendant: Option<Thread>,
    /// Reusable record for threads that wait for the queue's tail.
    spare_record: Option<Arc<Record>>,
    error: Option<Error>,
}

impl SubmissionQueue {
    /// Creates an idle submission queue without a thread.
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<SubmissionQueue> {
        Arc::new(SubmissionQueue {
            job: engine.new_job(),
            engine,
            status: AtomicU32::new(0),
            runner: AtomicUsize::new(0),
            state: Mutex::default(),
        })
    }

    /// Takes the role of an idle queue. Work done while holding the role comes after all earlier
    /// commands and before all later ones.
    #[inline]
    pub(crate) fn idle_role(self: &Arc<SubmissionQueue>) -> Option<Role<'_>> {
        self.role(RUNNING | PENDING, RUNNING | IN_PLACE)
    }

    /// Adds a command for a thread of the worker pool. Blocks only while another thread adds or
    /// takes commands.
    ///
    /// # Errors
    /// Errors of `add`, which then must have added nothing, and `OutOfResources` if no thread can
    /// be started.
    #[inline]
    pub(crate) fn push(
        self: &Arc<SubmissionQueue>,
        add: impl FnOnce(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        self.push_counted(add).map(drop)
    }

    /// Adds a command like [`push`](Self::push). Returns the number of commands that were ever
    /// pending, up to and including this one.
    fn push_counted(
        self: &Arc<SubmissionQueue>,
        add: impl FnOnce(&mut Batch) -> Result<()>,
    ) -> Result<u64> {
        let mut state = self.state.lock();
        if self.status.load(Ordering::Relaxed) & ATTENDED == 0 {
            worker_pool().ensure_thread()?;
        }
        add(&mut state.pending)?;
        state.pushed += 1;
        let pushed = state.pushed;
        let before = self.status.fetch_or(PENDING, Ordering::AcqRel);
        drop(state);
        if before & (RUNNING | PENDING) == 0 {
            self.ring(before);
        }
        Ok(pushed)
    }

    /// Returns whether all queued commands are done. If so, their effects are visible.
    pub(crate) fn is_idle(&self) -> bool {
        self.status.load(Ordering::Acquire) & (RUNNING | PENDING) == 0
    }

    /// Blocks until all commands queued before the call are done. May run them.
    ///
    /// # Errors
    /// The first pending failure. `Unsupported` on the thread that runs the queue's commands,
    /// which would wait for itself.
    pub(crate) fn synchronize(self: &Arc<SubmissionQueue>) -> Result<()> {
        self.refuse_runner()?;
        if self.is_idle() {
            return self.take_error();
        }
        match self.role(RUNNING, RUNNING) {
            Some(role) => role.run_as_guest(),
            None => self.wait_for_tail(),
        }
        self.take_error()
    }

    /// # Errors
    /// `Unsupported` on the thread that runs the queue's commands.
    #[inline]
    pub(crate) fn refuse_runner(&self) -> Result<()> {
        if self.runner.load(Ordering::Relaxed) == this_thread() { Err(own_queue()) } else { Ok(()) }
    }

    /// Returns the first pending failure, and clears it.
    #[inline]
    pub(crate) fn take_error(&self) -> Result<()> {
        if self.status.load(Ordering::Acquire) & FAILED == 0 {
            return Ok(());
        }
        let mut state = self.state.lock();
        self.status.fetch_and(!FAILED, Ordering::AcqRel);
        state.error.take().map_or(Ok(()), Err)
    }

    /// Returns the first pending failure, and clears it; `last` is the result of the latest
    /// command.
    #[inline]
    pub(crate) fn first_error(&self, last: Result<()>) -> Result<()> {
        let earlier = self.take_error();
        match (earlier, last) {
            (Ok(()), last) => last,
            (earlier, Ok(())) => earlier,
            (earlier, Err(later)) => {
                self.add(later);
                earlier
            }
        }
    }

    /// Returns the first pending failure, which stays pending.
    #[inline]
    pub(crate) fn pending_error(&self) -> Option<Error> {
        if self.status.load(Ordering::Acquire) & FAILED == 0 {
            return None;
        }
        self.state.lock().error.clone()
    }

    /// Makes the attending thread leave when it has run the pending commands. No command may be
    /// added afterwards.
    pub(crate) fn close(&self) {
        let before = self.status.fetch_or(CLOSED, Ordering::AcqRel);
        if before & ASLEEP != 0 {
            self.wake();
        }
    }

    /// Takes the role by setting the bits of `how`, unless one of the bits of `obstacles` is set.
    #[inline]
    fn role(self: &Arc<SubmissionQueue>, obstacles: u32, how: u32) -> Option<Role<'_>> {
        let mut status = self.status.load(Ordering::Relaxed);
        while status & obstacles == 0 {
            let taken = status | how;
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.status.compare_exchange_weak(status, taken, success, failure) {
                Ok(_) => {
                    self.runner.store(this_thread(), Ordering::Relaxed);
                    return Some(Role { queue: self });
                }
                Err(now) => status = now,
            }
        }
        None
    }

    fn wait_for_tail(self: &Arc<SubmissionQueue>) {
        let spare = self.state.lock().spare_record.take();
        let mut record = spare.unwrap_or_else(|| Arc::new(Record::new(false)));
        let Ok(pushed) = self.push_counted(|batch| batch.reach(Arc::clone(&record))) else {
            // After this call, the caller may free memory that queued commands use. So this
            // function must wait even without a record.
            while !self.is_idle() {
                thread::sleep(SPIN_TIME);
            }
            return;
        };
        record.wait();
        // The thread that ran the record is about to return the role. This wait ensures that the
        // caller then finds an idle queue, unless commands were added.
        let is_ending = || {
            let is_running = self.status.load(Ordering::Acquire) & (RUNNING | IN_PLACE) == RUNNING;
            is_running && self.state.lock().pushed == pushed
        };
        while is_ending() {
            thread::yield_now();
        }
        if let Some(used) = Arc::get_mut(&mut record) {
            *used = Record::new(false);
            self.state.lock().spare_record = Some(record);
        }
    }

    /// Takes over the role of a parked queue.
    fn take_over(self: &Arc<SubmissionQueue>) -> Role<'_> {
        self.runner.store(this_thread(), Ordering::Relaxed);
        Role { queue: self }
    }

    /// Blocks until commands exist that no thread runs. Returns `false` if the calling thread no
    /// longer attends to the queue.
    fn await_commands(&self) -> bool {
        loop {
            // Each iteration reads the status again: a guest may take the pending commands at any
            // moment.
            let status = self.status.load(Ordering::Acquire);
            if has_work(status) {
                return true;
            }
            if status & CLOSED != 0 {
                if self.leave(status) {
                    return false;
                }
                continue;
            }
            let concerned = || {
                let status = self.status.load(Ordering::Acquire);
                has_work(status) || status & CLOSED != 0 || worker_pool().has_listed()
            };
            if spin_until(SPIN_TIME, concerned) && !worker_pool().has_listed() {
                continue;
            }
            let mut rung = false;
            worker_pool().sleep_attached(|| rung = self.sleep());
            let status = self.status.load(Ordering::Acquire);
            if !rung && !has_work(status) && self.leave(status) {
                return false;
            }
        }
    }

    /// Ends the attendance of the calling thread, unless the status has changed.
    fn leave(&self, status: u32) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let left = status & !(ATTENDED | ASLEEP);
        self.status.compare_exchange(status, left, success, failure).is_ok()
    }

    /// Sleeps until a ring or a time limit, unless there is a reason to stay awake. Returns whether
    /// such a reason or a ring came.
    fn sleep(&self) -> bool {
        let status = self.status.load(Ordering::Acquire);
        if status & CLOSED != 0 || has_work(status) {
            return true;
        }
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let asleep = self.status.compare_exchange(status, status | ASLEEP, success, failure);
        if asleep.is_err() {
            return true;
        }
        let until = Instant::now() + STAY;
        while self.status.load(Ordering::Acquire) & ASLEEP != 0 {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                // A thread that rings meanwhile clears the flag.
                return self.status.fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP == 0;
            }
            thread::park_timeout(rest);
        }
        true
    }

    /// Ensures that a thread runs the pending commands. If `before` shows an attending thread
    /// awake, that thread has seen the change, or will see it before it sleeps or leaves.
    #[inline]
    fn ring(self: &Arc<SubmissionQueue>, before: u32) {
        if before & (ASLEEP | ATTENDED) != ATTENDED {
            self.ring_for(before);
        }
    }

    #[cold]
    fn ring_for(self: &Arc<SubmissionQueue>, before: u32) {
        if before & ASLEEP != 0 {
            self.wake();
        }
        // A sleeping thread may have left meanwhile.
        if self.status.fetch_or(ATTENDED, Ordering::AcqRel) & ATTENDED == 0 {
            worker_pool().call(Arc::clone(self) as Arc<dyn QueuedCommands>);
        }
    }

    #[cold]
    fn wake(&self) {
        if self.status.fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP != 0
            && let Some(attendant) = &self.state.lock().attendant
        {
            attendant.unpark();
        }
    }
}

impl QueuedCommands for SubmissionQueue {
    /// Runs pending commands until the queue stays empty for a while, or is parked.
    fn attend(self: Arc<Self>) {
        let mut state = self.state.lock();
        state.attendant = Some(thread::current());
        let mut batch = std::mem::take(&mut state.own);
        let parked = state.parked.take();
        drop(state);
        if let Some(parked) = parked {
            batch = parked;
            let role = self.take_over();
            if !role.run_on(&mut batch) {
                return;
            }
        }
        while self.await_commands() {
            if let Some(role) = self.role(RUNNING, RUNNING)
                && !role.run_on(&mut batch)
            {
                return;
            }
        }
        self.state.lock().own = batch;
    }
}

impl Failures for SubmissionQueue {
    fn add(&self, error: Error) {
        log::warn!("{error}");
        let mut state = self.state.lock();
        state.error.get_or_insert(error);
        self.status.fetch_or(FAILED, Ordering::AcqRel);
    }

    fn first(&self) -> Option<Error> {
        self.pending_error()
    }
}

/// The right to run a queue's commands. Dropping it returns the role.
pub(crate) struct Role<'a> {
    queue: &'a Arc<SubmissionQueue>,
}

impl Role<'_> {
    /// Runs a launch in place.
    ///
    /// # Errors
    /// The errors of [`Engine::run`].
    #[inline]
    pub(crate) fn launch(&self, launch: &Launch, arguments: Arguments<'_>) -> Result<()> {
        let SubmissionQueue { engine, job, .. } = &**self.queue;
        // SAFETY: the arguments vouch for running the kernel with their values, to which the
        // pointers point, valid during this call.
        unsafe { engine.run(job, launch, arguments.pointers()) }
    }

    /// Runs a launch whose kernel takes words in place.
    ///
    /// # Errors
    /// The errors of [`Engine::run_words`].
    #[inline]
    pub(crate) fn launch_words(&self, launch: &Launch, arguments: Arguments<'_>) -> Result<()> {
        let engine = &self.queue.engine;
        // SAFETY: the arguments vouch for running the kernel with their values.
        Words::with(arguments, |words| unsafe { engine.run_words(launch, words) })
    }

    /// Runs the commands that are pending now, on a thread that does not attend to the queue, and
    /// waits here for other queues.
    fn run_as_guest(self) {
        let mut batch = std::mem::take(&mut self.queue.state.lock().spare);
        self.take_pending(&mut batch);
        while let Some(awaited) = self.run(&mut batch) {
            awaited.wait();
        }
        self.queue.state.lock().spare = batch;
    }

    /// Runs the rest of a batch, then pending commands until none is left. Returns `false` if the
    /// queue was parked: another thread may already attend to it.
    fn run_on(self, batch: &mut Batch) -> bool {
        loop {
            if let Some(awaited) = self.run(batch) {
                if self.park(batch, &awaited) {
                    std::mem::forget(self);
                    return false;
                }
            } else if !self.take_pending(batch) {
                return true;
            }
        }
    }

    /// Runs a batch, up to a command that waits for a record, which is returned.
    fn run(&self, batch: &mut Batch) -> Option<Arc<Record>> {
        let queue = &**self.queue;
        batch.run(&queue.engine, &queue.job, queue)
    }

    /// Takes the pending commands into `batch`, which is empty. Returns `false` if no command is
    /// pending.
    fn take_pending(&self, batch: &mut Batch) -> bool {
        if self.queue.status.load(Ordering::Acquire) & PENDING == 0 {
            return false;
        }
        let mut state = self.queue.state.lock();
        std::mem::swap(&mut state.pending, batch);
        self.queue.status.fetch_and(!PENDING, Ordering::AcqRel);
        true
    }

    /// Leaves a batch, and with it the role, to the thread that attends to the queue after the
    /// record is reached. Returns `false` if the record was reached before, so that the batch can
    /// continue.
    fn park(&self, batch: &mut Batch, awaited: &Record) -> bool {
        let mut state = self.queue.state.lock();
        state.parked = Some(std::mem::take(batch));
        self.queue.runner.store(0, Ordering::Relaxed);
        // The flag `ATTENDED` stays set: the thread that is called when the record is reached
        // attends from then on. It takes the batch under this lock.
        if awaited.call_when_reached(self.queue) {
            return true;
        }
        *batch = state.parked.take().unwrap_or_default();
        self.queue.runner.store(this_thread(), Ordering::Relaxed);
        false
    }
}

/// Returns whether commands exist that no thread runs.
fn has_work(status: u32) -> bool {
    status & (RUNNING | PENDING) == PENDING
}

impl Drop for Role<'_> {
    #[inline]
    fn drop(&mut self) {
        self.queue.runner.store(0, Ordering::Relaxed);
        let before = self.queue.status.fetch_and(!(RUNNING | IN_PLACE), Ordering::AcqRel);
        if before & PENDING != 0 {
            self.queue.ring(before);
        }
    }
}

/// Returns a number that no other living thread has, and never 0.
#[inline]
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cold]
fn own_queue() -> Error {
    Error::would_deadlock("waiting for a queue", "the same queue")
}
