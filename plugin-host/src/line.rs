//! Which thread runs a queue's commands, and when.
//!
//! Whoever runs commands holds the line's [`Role`]; one thread at a time does. Three kinds of
//! threads take it:
//!
//! - a thread whose command waits anyway, on an idle line: it runs the command in place
//!   ([`Line::idle_role`]). Two atomic operations, no lock, nothing captured;
//! - a thread that synchronizes while nobody runs what is pending: it runs that itself;
//! - the line's own thread, started by the first command that is queued. When it runs dry it looks
//!   for more for a moment, then sleeps until it is rung for.
//!
//! The state is one word, `status`. *Pending* commands lie behind a lock that is held to add one
//! command or to take all of them. Two rules keep the line going:
//!
//! - who makes a line pending that nobody runs, rings;
//! - who gives the role back on a line that is pending, rings.
//!
//! The line's own thread sleeps only while neither concerns it, so no command is left behind.

use crate::command::Batch;
use crate::event::{Record, spin_until};
use crate::execute::{Engine, Job, Launch};
use longshore_plugin_api::{Arguments, Error, ErrorCode, Result};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Somebody holds the role.
const RUNNING: u32 = 1;
/// There are commands that nobody took yet.
const PENDING: u32 = 2;
/// The line's thread sleeps.
const ASLEEP: u32 = 4;
/// The queue was dropped: the thread ends when it runs dry.
const CLOSED: u32 = 8;
/// A command failed and nobody was told.
const FAILED: u32 = 16;
/// Who holds the role runs one command in place, that was never pending.
const IN_PLACE: u32 = 32;

/// How long the line's thread looks for more before it sleeps. Waking it costs its waker some
/// microseconds.
const PATIENCE: Duration = Duration::from_micros(40);
/// Kernels may use as much stack as on a program's main thread.
const STACK_BYTES: usize = 8 << 20;

/// The commands of one queue and the threads that run them.
pub(crate) struct Line {
    engine: Arc<Engine>,
    job: Arc<Job>,
    status: AtomicU32,
    /// The thread that holds the role; 0 if none does.
    runner: AtomicUsize,
    state: Mutex<State>,
    worker: OnceLock<Thread>,
}

#[derive(Default)]
struct State {
    pending: Batch,
    /// How many commands were ever pending.
    pushed: u64,
    /// Memory for who runs commands without being the line's thread.
    spare: Batch,
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
            worker: OnceLock::new(),
        })
    }

    /// Takes the role if the line is idle: what is done while it is held comes after all that was
    /// queued before and before all that is queued later.
    #[inline]
    pub(crate) fn idle_role(&self) -> Option<Role<'_>> {
        self.role(RUNNING | PENDING, RUNNING | IN_PLACE)
    }

    /// Adds a command for the line's thread. Blocks only while another thread adds or takes
    /// commands.
    ///
    /// # Errors
    /// Those of `add`, which then must have added nothing, and `OutOfResources` if the line's
    /// thread cannot be started.
    #[inline]
    pub(crate) fn push(self: &Arc<Line>, add: impl FnOnce(&mut Batch) -> Result<()>) -> Result<()> {
        self.push_counted(add).map(drop)
    }

    /// The same; answers how many were pending up to this one.
    fn push_counted(self: &Arc<Line>, add: impl FnOnce(&mut Batch) -> Result<()>) -> Result<u64> {
        let mut state = self.lock();
        if self.worker.get().is_none() {
            self.start()?;
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
    /// The first failure that nobody was told of; `InvalidQueue` on the thread that runs the
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
    /// `InvalidQueue` on the thread that runs the line's commands.
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
        let mut state = self.lock();
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
                self.keep_error(later);
                earlier
            }
        }
    }

    /// Lets the thread end when it has run what is pending. Nothing may be added afterwards.
    pub(crate) fn close(&self) {
        let before = self.status.fetch_or(CLOSED, Ordering::AcqRel);
        self.ring(before);
    }

    /// Takes the role, as `how`, unless one of the bits of `obstacles` is set.
    #[inline]
    fn role(&self, obstacles: u32, how: u32) -> Option<Role<'_>> {
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
        let spare = self.lock().spare_record.take();
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
            is_running && self.lock().pushed == pushed
        };
        while is_ending() {
            thread::yield_now();
        }
        if let Some(used) = Arc::get_mut(&mut record) {
            *used = Record::new(false);
            self.lock().spare_record = Some(record);
        }
    }

    fn keep_error(&self, error: Error) {
        log::warn!("{error}");
        let mut state = self.lock();
        state.error.get_or_insert(error);
        self.status.fetch_or(FAILED, Ordering::AcqRel);
    }

    /// Starts the line's thread; under the lock, so that it is started once.
    #[cold]
    fn start(self: &Arc<Line>) -> Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("longshore-q{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let line = Arc::clone(self);
        let builder = thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
        let worker = builder.spawn(move || line.work()).map_err(|error| {
            let message = format!("thread '{name}' of a queue cannot be started: {error}");
            Error::new(ErrorCode::OutOfResources, message)
        })?;
        let _ = self.worker.set(worker.thread().clone());
        Ok(())
    }

    /// The life of the line's thread.
    fn work(&self) {
        let mut batch = Batch::default();
        while self.await_commands() {
            if let Some(role) = self.role(RUNNING, RUNNING) {
                while role.run_pending(&mut batch) {}
            }
        }
    }

    /// Blocks until there are commands that nobody runs; false if there will be none any more.
    fn await_commands(&self) -> bool {
        let has_work = |status: u32| status & (RUNNING | PENDING) == PENDING;
        let is_over = |status: u32| status & (RUNNING | PENDING | CLOSED) == CLOSED;
        loop {
            // Each look decides by itself: a guest may take what is pending at any moment.
            let status = self.status.load(Ordering::Acquire);
            if has_work(status) || is_over(status) {
                return has_work(status);
            }
            let concerned = || {
                let status = self.status.load(Ordering::Acquire);
                has_work(status) || is_over(status)
            };
            if !spin_until(PATIENCE, concerned) {
                self.sleep();
            }
        }
    }

    /// Sleeps until rung for, unless there is a reason not to.
    fn sleep(&self) {
        let status = self.status.load(Ordering::Acquire);
        if status & CLOSED != 0 || status & (RUNNING | PENDING) == PENDING {
            return;
        }
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let asleep = self.status.compare_exchange(status, status | ASLEEP, success, failure);
        if asleep.is_ok() {
            while self.status.load(Ordering::Acquire) & ASLEEP != 0 {
                thread::park();
            }
        }
    }

    /// Wakes the line's thread if it sleeps. One that did not when `before` was the status has
    /// seen what changed since, or will before it sleeps.
    #[inline]
    fn ring(&self, before: u32) {
        if before & ASLEEP != 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.status.fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP != 0 {
            self.worker.get().expect("a thread that sleeps was started").unpark();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to run a line's commands. Given back when it is dropped.
pub(crate) struct Role<'a> {
    line: &'a Line,
}

impl Role<'_> {
    /// Runs a launch in place.
    ///
    /// # Errors
    /// Those of [`Engine::run`].
    #[inline]
    pub(crate) fn launch(&self, launch: &Launch, arguments: Arguments<'_>) -> Result<()> {
        let Line { engine, job, .. } = self.line;
        // SAFETY: the arguments vouch for running the kernel with the values that the pointers, which are valid
        // during this call, point at.
        unsafe { engine.run(job, launch, arguments.pointers()) }
    }

    /// Runs what is pending now, once, on a thread that is not the line's.
    fn run_as_guest(self) {
        let mut batch = std::mem::take(&mut self.line.lock().spare);
        self.run_pending(&mut batch);
        self.line.lock().spare = batch;
    }

    /// Takes what is pending and runs it, in `batch`, which is empty before and after. False if
    /// there was nothing.
    fn run_pending(&self, batch: &mut Batch) -> bool {
        if self.line.status.load(Ordering::Acquire) & PENDING == 0 {
            return false;
        }
        let mut state = self.line.lock();
        std::mem::swap(&mut state.pending, batch);
        self.line.status.fetch_and(!PENDING, Ordering::AcqRel);
        drop(state);
        let Line { engine, job, .. } = self.line;
        batch.run(engine, job, |error| self.line.keep_error(error));
        true
    }
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
    let message = "a host function waits for its own queue, which waits for the host function";
    Error::new(ErrorCode::InvalidQueue, message)
}
