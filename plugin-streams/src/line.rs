//! The order of a queue's work, where some of it needs the host.
//!
//! Work goes straight to the stream until a *step* comes that a thread of the host must do: a function of
//! the program, a copy that would block the caller, a wait for an event that no stream has reached yet
//! because its own queue keeps it. From then on the line *keeps* what is queued, as steps, and a thread of the
//! backend's crew does them one after the other: a step for the stream it hands over, a step of the host it does
//! when the stream has done all before. When none is left, the thread goes, and work goes straight to the stream again.
//!
//! Where the next step waits for an event that the driver was not given, the line is *parked* on that event's record:
//! its thread goes at once, and the crew is called again when the driver has the event.
//!
//! The stream itself waits for nothing but other streams' work that the driver has, so no queue can keep
//! another from going on.

use crate::call::Code;
use crate::crew::{Awaited, BusyLine, KeptWork};
use crate::device_core::DeviceCore;
use crate::driver::{Context, Driver};
use crate::lane::Lane;
use crate::record::Record;
use crate::step::Step;
use longshore_plugin_api::{AtWork, Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

/// The work of one queue.
pub(crate) struct Line<D: Driver> {
    lane: Lane<D>,
    /// Work is kept, and the crew has the line: it was called, a thread does steps, or the line is parked. Set and
    /// cleared with the lock, looked at without.
    keeps: AtomicBool,
    state: Mutex<State<D>>,
    /// A step was done.
    moved: Condvar,
}

struct State<D: Driver> {
    steps: VecDeque<Step<D>>,
    /// How many steps were kept, and how many of those are done.
    kept: u64,
    done: u64,
    /// The thread that runs a function of the program.
    runner: Option<ThreadId>,
}

impl<D: Driver> State<D> {
    fn new() -> State<D> {
        State { steps: VecDeque::new(), kept: 0, done: 0, runner: None }
    }
}

/// The right to add to a line that keeps its work.
pub(crate) struct Keeping<'a, D: Driver> {
    state: MutexGuard<'a, State<D>>,
}

impl<D: Driver> Keeping<'_, D> {
    pub(crate) fn push(mut self, step: Step<D>) {
        self.state.steps.push_back(step);
        self.state.kept += 1;
    }
}

impl<D: Driver> Line<D> {
    /// Returns an empty line.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>) -> Result<Arc<Line<D>>> {
        Ok(Arc::new(Line {
            lane: Lane::new(device)?,
            keeps: AtomicBool::new(false),
            state: Mutex::new(State::new()),
            moved: Condvar::new(),
        }))
    }

    /// Returns the right to add work behind the kept steps; `None` if none is kept, so that work goes straight to the
    /// stream.
    #[inline]
    pub(crate) fn keeping(&self) -> Option<Keeping<'_, D>> {
        if !self.keeps.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state.lock();
        self.keeps.load(Ordering::Relaxed).then_some(Keeping { state })
    }

    /// Queues something that a thread of the host does, and keeps what comes behind it.
    ///
    /// # Errors
    /// A lost device; `OutOfResources` if there can be no thread.
    pub(crate) fn keep(self: &Arc<Line<D>>, step: Step<D>) -> Result<()> {
        self.device().refuse_if_lost()?;
        let state = self.state.lock();
        // The thread that comes finds the step, as it needs the lock.
        let wake = match self.keeps.load(Ordering::Relaxed) {
            true => None,
            false => Some(D::crew().try_call(self.busy())?),
        };
        self.keeps.store(true, Ordering::Release);
        Keeping { state }.push(step);
        drop(wake);
        Ok(())
    }

    /// Queues a wait for a record, and keeps what comes behind it if the driver was not given the record. No thread
    /// is needed before it is.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn await_record(self: &Arc<Line<D>>, record: Arc<Record<D>>) -> Result<()> {
        self.device().refuse_if_lost()?;
        let state = self.state.lock();
        if !self.keeps.load(Ordering::Relaxed) {
            if record.park(self.busy()).is_some() {
                drop(state);
                return record.hold_up(self);
            }
            // The thread that is called when the driver has it finds the step, as it needs the lock.
            self.keeps.store(true, Ordering::Release);
        }
        Keeping { state }.push(Step::Wait(record));
        Ok(())
    }

    /// Blocks until all that was queued before the call is done.
    ///
    /// # Errors
    /// The first failure that no call has returned; a lost device; `Unsupported` on the thread that runs a
    /// function of this queue, which would wait for itself.
    #[inline]
    pub(crate) fn synchronize(&self) -> Result<()> {
        let mut state = self.state.lock();
        if self.keeps.load(Ordering::Relaxed) {
            refuse_runner(&state)?;
            let until = state.kept;
            while state.done < until {
                self.moved.wait(&mut state);
            }
        }
        drop(state);
        let earlier = self.take_error();
        let result = self.synchronize_stream();
        earlier.map_or(result, Err)
    }

    /// Refuses a wait by a function of this queue.
    ///
    /// # Errors
    /// `Unsupported` on the thread that runs a function of this queue, which would wait for itself.
    pub(crate) fn refuse_runner(&self) -> Result<()> {
        match self.keeps.load(Ordering::Acquire) {
            true => refuse_runner(&self.state.lock()),
            false => Ok(()),
        }
    }

    /// Returns whether all that was queued is done.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let _current = self.device().enter()?;
        if self.keeps.load(Ordering::Acquire) {
            let state = self.state.lock();
            if state.done < state.kept {
                return Ok(false);
            }
        }
        // SAFETY: the stream is live.
        match unsafe { self.device().driver().query_stream(self.stream()) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.is(Code::NOT_READY) => Ok(false),
            Err(failure) => Err(self.device().failed("asking whether a queue is idle", failure)),
        }
    }

    /// Returns the line for a thread of the crew.
    fn busy(self: &Arc<Line<D>>) -> BusyLine {
        BusyLine::new(Arc::clone(self) as Arc<dyn KeptWork>)
    }
}

impl<D: Driver> KeptWork for Line<D> {
    fn do_steps(self: Arc<Line<D>>) -> Option<Arc<dyn Awaited>> {
        // Each step enters the device too, so it matters to functions of the program alone whether this fails.
        let _current = self.device().context().visit().ok();
        let mut state = self.state.lock();
        loop {
            if let Some(Step::Wait(record)) = state.steps.front()
                && !record.is_submitted()
            {
                return Some(Arc::clone(record) as Arc<dyn Awaited>);
            }
            let Some(step) = state.steps.pop_front() else {
                self.keeps.store(false, Ordering::Release);
                return None;
            };
            if step.is_function() {
                state.runner = Some(thread::current().id());
            }
            let result = MutexGuard::unlocked(&mut state, || step.run(&self));
            state.runner = None;
            if let Err(error) = result {
                log::warn!("{error}");
                self.keep_error(error);
            }
            state.done += 1;
            self.moved.notify_all();
        }
    }

    fn at_work(&self) -> AtWork {
        self.device().at_work()
    }
}

impl<D: Driver> Deref for Line<D> {
    type Target = Lane<D>;

    #[inline]
    fn deref(&self) -> &Lane<D> {
        &self.lane
    }
}

fn refuse_runner<D: Driver>(state: &State<D>) -> Result<()> {
    match state.runner {
        Some(runner) if runner == thread::current().id() => Err(own_queue()),
        _ => Ok(()),
    }
}

#[cold]
fn own_queue() -> Error {
    Error::would_deadlock("waiting for a queue", "the same queue")
}
