//! Which thread runs a queue's commands, and when.
//!
//! Whoever runs commands holds the line's [`Role`]; one thread at a time does. Three kinds of
//! threads take it:
//!
//! - a thread whose command waits anyway, on an idle line: it runs the command in place
//!   ([`Line::idle_role`]). Two atomic operations, no lock, nothing captured;
//! - a thread that synchronizes while nobody runs what is pending: it runs that itself;
//! - a thread of the [`crew`](crate::crew) that *attends* to the line, called when a command is queued and there is
//!   none. When it runs dry it looks for more for a moment, sleeps beside the line until it is rung for, and
//!   goes when nothing comes. Where the next command waits for another queue, the line is *parked*: its
//!   thread goes at once, and the crew is called again when the awaited place is reached.
//!
//! The state is one word, `status`. *Pending* commands lie behind a lock that is held to add one
//! command or to take all of them. Two rules keep the line going:
//!
//! - who makes a line pending that nobody runs, rings;
//! - who gives the role back on a line that is pending, rings.
//!
//! A thread that attends to the line sleeps or goes only while neither concerns it, so no command is left
//! behind. A parked line keeps the role, which the thread that attends to it next takes over.

use crate::command::{Batch, Failures};
use crate::crew::{Attended, crew};
use crate::execute::{Engine, Job, Launch};
use crate::record::Record;
use crate::spin::spin_until;
use longshore_plugin_api::{Arguments, Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Somebody holds the role.
const RUNNING: u32 = 1;
/// There are commands that nobody took yet.
const PENDING: u32 = 2;
/// The thread that attends to the line sleeps.
const ASLEEP: u32 = 4;
/// The queue was dropped: the thread that attends to the line goes when it runs dry.
const CLOSED: u32 = 8;
/// A command failed and nobody was told.
const FAILED: u32 = 16;
/// Who holds the role runs one command in place, that was never pending.
const IN_PLACE: u32 = 32;
/// A thread attends to the line, or was called to.
const ATTENDED: u32 = 64;

/// How long a thread that attends to a line looks for more before it sleeps. Waking it costs its
/// waker some microseconds.
const PATIENCE: Duration = Duration::from_micros(40);
/// How long it sleeps before it goes.
const STAY: Duration = Duration::from_secs(1);

/// The commands of one queue and the threads that run them.
pub(crate) struct Line {
    engine: Arc<Engine>,
    job: Arc<Job>,
    status: AtomicU32,
    /// The thread that holds the role; 0 if none does.
    runner: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Batch,
    /// How many commands were ever pending.
    pushed: u64,
    /// Memory for who runs commands without attending to the line.
    spare: Batch,
    /// Memory for the thread that attends to the line.
    own: Batch,
    /// The commands of a parked line, of which the first waits.
    parked: Option<Batch>,
    /// The thread that attends to the line.
    attendant: Option<Thread>,
    /// For who waits for the line's tail.
    spare_record: Option<Arc<Record>>,
    error: Option<Error>,
}

impl Line {
    /// An idle line without a thread.
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<Line> {
        Arc::new(Line {
            job: engine.new_job(),
            engine,
            status: AtomicU32::new(0),
            runner: AtomicUsize::new(0),
            state: Mutex::default(),
        })
    }

    /// Takes the role if the line is idle: what is done while it is held comes after all that was
    /// queued before and before all that is queued later.
    #[inline]
    pub(crate) fn idle_role(self: &Arc<Line>) -> Option<Role<'_>> {
        self.role(RUNNING | PENDING, RUNNING | IN_PLACE)
    }

    /// Adds a command for a thread of the crew. Blocks only while another thread adds or takes
    /// commands.
    ///
    /// # Errors
    /// Errors of `add`, which then must have added nothing, and `OutOfResources` if there can be no
    /// thread.
    #[inline]
    pub(crate) fn push(self: &Arc<Line>, add: impl FnOnce(&mut Batch) -> Result<()>) -> Result<()> {
        self.push_counted(add).map(drop)
    }

    /// The same; answers how many were pending up to this one.
    fn push_counted(self: &Arc<Line>, add: impl FnOnce(&mut Batch) -> Result<()>) -> Result<u64> {
        let mut state = self.state.lock();
        if self.status.load(Ordering::Relaxed) & ATTENDED == 0 {
            crew().ensure_thread()?;
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

    /// Whether all that was queued is done; if so, its effects are visible.
    pub(crate) fn is_idle(&self) -> bool {
        self.status.load(Ordering::Acquire) & (RUNNING | PENDING) == 0
    }

    /// Blocks until all that was queued before the call is done. May run it.
    ///
    /// # Errors
    /// The first failure that nobody was told of; `Unsupported` on the thread that runs the
    /// line's commands, which would wait for itself.
    pub(crate) fn synchronize(self: &Arc<Line>) -> Result<()> {
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
    /// `Unsupported` on the thread that runs the line's commands.
    #[inline]
    pub(crate) fn refuse_runner(&self) -> Result<()> {
        if self.runner.load(Ordering::Relaxed) == this_thread() { Err(own_queue()) } else { Ok(()) }
    }

    /// The first failure that nobody was told of.
    #[inline]
    pub(crate) fn take_error(&self) -> Result<()> {
        if self.status.load(Ordering::Acquire) & FAILED == 0 {
            return Ok(());
        }
        let mut state = self.state.lock();
        self.status.fetch_and(!FAILED, Ordering::AcqRel);
        state.error.take().map_or(Ok(()), Err)
    }

    /// The first failure that nobody was told of, `last` being the latest.
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

    /// The same, and it stays untold.
    #[inline]
    pub(crate) fn untold(&self) -> Option<Error> {
        if self.status.load(Ordering::Acquire) & FAILED == 0 {
            return None;
        }
        self.state.lock().error.clone()
    }

    /// Lets the thread that attends to the line go when it has run what is pending. Nothing may be
    /// added afterwards.
    pub(crate) fn close(&self) {
        let before = self.status.fetch_or(CLOSED, Ordering::AcqRel);
        if before & ASLEEP != 0 {
            self.wake();
        }
    }

    /// Takes the role, as `how`, unless one of the bits of `obstacles` is set.
    #[inline]
    fn role(self: &Arc<Line>, obstacles: u32, how: u32) -> Option<Role<'_>> {
        let mut status = self.status.load(Ordering::Relaxed);
        while status & obstacles == 0 {
            let taken = status | how;
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.status.compare_exchange_weak(status, taken, success, failure) {
                Ok(_) => {
                    self.runner.store(this_thread(), Ordering::Relaxed);
                    return Some(Role { line: self });
                }
                Err(now) => status = now,
            }
        }
        None
    }

    fn wait_for_tail(self: &Arc<Line>) {
        let spare = self.state.lock().spare_record.take();
        let mut record = spare.unwrap_or_else(|| Arc::new(Record::new(false)));
        let Ok(pushed) = self.push_counted(|batch| batch.reach(Arc::clone(&record))) else {
            // Whoever waits may free what commands use next, so there is no way but to wait.
            while !self.is_idle() {
                thread::sleep(PATIENCE);
            }
            return;
        };
        record.wait();
        // Who ran it is about to give the role back: who has waited finds an idle line, unless there is more by now.
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

    /// The role of a parked line.
    fn take_over(self: &Arc<Line>) -> Role<'_> {
        self.runner.store(this_thread(), Ordering::Relaxed);
        Role { line: self }
    }

    /// Blocks until there are commands that nobody runs; false if the calling thread attends to the line no more.
    fn await_commands(&self) -> bool {
        loop {
            // Each look decides by itself: a guest may take what is pending at any moment.
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
                has_work(status) || status & CLOSED != 0 || crew().has_listed()
            };
            if spin_until(PATIENCE, concerned) && !crew().has_listed() {
                continue;
            }
            let mut rung = false;
            crew().beside_line(|| rung = self.sleep());
            let status = self.status.load(Ordering::Acquire);
            if !rung && !has_work(status) && self.leave(status) {
                return false;
            }
        }
    }

    /// Ends attending to the line, unless its status has changed.
    fn leave(&self, status: u32) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let left = status & !(ATTENDED | ASLEEP);
        self.status.compare_exchange(status, left, success, failure).is_ok()
    }

    /// Sleeps until rung for, for a while at most, unless there is a reason not to; answers whether there is one, or it was rung for.
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
                // A thread that rings meanwhile takes the flag away.
                return self.status.fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP == 0;
            }
            thread::park_timeout(rest);
        }
        true
    }

    /// Has a thread run what is pending. One that attended and did not sleep when `before` was the
    /// status has seen what changed since, or will before it sleeps or goes.
    #[inline]
    fn ring(self: &Arc<Line>, before: u32) {
        if before & (ASLEEP | ATTENDED) != ATTENDED {
            self.ring_for(before);
        }
    }

    #[cold]
    fn ring_for(self: &Arc<Line>, before: u32) {
        if before & ASLEEP != 0 {
            self.wake();
        }
        // A thread that has slept may have gone meanwhile.
        if self.status.fetch_or(ATTENDED, Ordering::AcqRel) & ATTENDED == 0 {
            crew().call(Arc::clone(self) as Arc<dyn Attended>);
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

impl Attended for Line {
    /// Runs what is pending until the line has nothing more for a while, or is parked.
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

impl Failures for Line {
    fn add(&self, error: Error) {
        log::warn!("{error}");
        let mut state = self.state.lock();
        state.error.get_or_insert(error);
        self.status.fetch_or(FAILED, Ordering::AcqRel);
    }

    fn first(&self) -> Option<Error> {
        self.untold()
    }
}

/// The right to run a line's commands. Given back when it is dropped.
pub(crate) struct Role<'a> {
    line: &'a Arc<Line>,
}

impl Role<'_> {
    /// Runs a launch in place.
    ///
    /// # Errors
    /// Those of [`Engine::run`].
    #[inline]
    pub(crate) fn launch(&self, launch: &Launch, arguments: Arguments<'_>) -> Result<()> {
        let Line { engine, job, .. } = &**self.line;
        // SAFETY: the arguments vouch for running the kernel with the values that the pointers, which are valid
        // during this call, point at.
        unsafe { engine.run(job, launch, arguments.pointers()) }
    }

    /// Runs what is pending now, once, on a thread that does not attend to the line, and waits for other queues here.
    fn run_as_guest(self) {
        let mut batch = std::mem::take(&mut self.line.state.lock().spare);
        self.take_pending(&mut batch);
        while let Some(awaited) = self.run(&mut batch) {
            awaited.wait();
        }
        self.line.state.lock().spare = batch;
    }

    /// Runs what is left of a batch, and what is pending until there is no more. False if the line was parked: another thread may attend to it
    /// by now.
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

    /// Up to a command that waits for what is the answer.
    fn run(&self, batch: &mut Batch) -> Option<Arc<Record>> {
        let line = &**self.line;
        batch.run(&line.engine, &line.job, line)
    }

    /// Takes what is pending into `batch`, which is empty. False if there is nothing.
    fn take_pending(&self, batch: &mut Batch) -> bool {
        if self.line.status.load(Ordering::Acquire) & PENDING == 0 {
            return false;
        }
        let mut state = self.line.state.lock();
        std::mem::swap(&mut state.pending, batch);
        self.line.status.fetch_and(!PENDING, Ordering::AcqRel);
        true
    }

    /// Leaves a batch, and with it the role, to whichever thread attends to the line when a place is reached. False if it was reached
    /// before, so that the batch can go on.
    fn park(&self, batch: &mut Batch, awaited: &Record) -> bool {
        let mut state = self.line.state.lock();
        state.parked = Some(std::mem::take(batch));
        self.line.runner.store(0, Ordering::Relaxed);
        // Still attended: who is called when the place is reached attends from then on. It takes the batch under this lock.
        if awaited.call_when_reached(self.line) {
            return true;
        }
        *batch = state.parked.take().unwrap_or_default();
        self.line.runner.store(this_thread(), Ordering::Relaxed);
        false
    }
}

/// Whether there are commands that nobody runs.
fn has_work(status: u32) -> bool {
    status & (RUNNING | PENDING) == PENDING
}

impl Drop for Role<'_> {
    #[inline]
    fn drop(&mut self) {
        self.line.runner.store(0, Ordering::Relaxed);
        let before = self.line.status.fetch_and(!(RUNNING | IN_PLACE), Ordering::AcqRel);
        if before & PENDING != 0 {
            self.line.ring(before);
        }
    }
}

/// A number that no other living thread has; not 0.
#[inline]
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cold]
fn own_queue() -> Error {
    Error::would_deadlock("waiting for a queue", "the same queue")
}
