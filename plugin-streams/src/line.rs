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

use crate::call::{Call, Code, Failure};
use crate::device::DeviceCore;
use crate::driver::{Context, Driver, EventKind};
use crate::event::Record;
use crate::handle::Stream;
use crate::in_flight::InFlight;
use crate::memory::{Found, Locked, locked_by_others};
use crate::staging::Staging;
use crate::step::Step;
use longshore_plugin_api::{AtWork, Crew, Error, ErrorCode, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

/// Number of threads of a backend's crew that are started without waiting for others. Most of them wait for a
/// stream, or for whatever a function of the program waits for.
const MOST_THREADS: usize = 64;

/// The work of one queue.
pub(crate) struct Line<D: Driver> {
    device: Arc<DeviceCore<D>>,
    stream: Stream,
    staging: Mutex<Staging>,
    /// Where pinned memory was found last.
    pinned: Mutex<Found>,
    in_flight: Arc<InFlight>,
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
    /// The first failure that nobody was told of.
    error: Option<Error>,
    /// The thread that runs a function of the program.
    runner: Option<ThreadId>,
}

impl<D: Driver> State<D> {
    fn new() -> State<D> {
        State { steps: VecDeque::new(), kept: 0, done: 0, error: None, runner: None }
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
    /// An empty line.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>) -> Result<Arc<Line<D>>> {
        let (stream, staging) = device.take_stream()?;
        Ok(Arc::new(Line {
            stream,
            staging: Mutex::new(staging),
            pinned: Mutex::default(),
            in_flight: device.register(),
            device: Arc::clone(device),
            keeps: AtomicBool::new(false),
            state: Mutex::new(State::new()),
            moved: Condvar::new(),
        }))
    }

    pub(crate) fn device(&self) -> &Arc<DeviceCore<D>> {
        &self.device
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Where work must be added that comes behind what is kept; nothing if none is, so that it goes
    /// straight to the stream.
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
        self.device.refuse_if_lost()?;
        let state = self.state.lock();
        // The thread that comes finds the step, as it needs the lock.
        let wake = match self.keeps.load(Ordering::Relaxed) {
            true => None,
            false => Some(D::crew().try_call(BusyLine::new(self))?),
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
        self.device.refuse_if_lost()?;
        let state = self.state.lock();
        if !self.keeps.load(Ordering::Relaxed) {
            if record.park(BusyLine::new(self)).is_some() {
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
    /// The first failure that nobody was told of; a lost device; `InvalidQueue` on the thread that runs a
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
        let earlier = state.error.take();
        drop(state);
        let result = self.synchronize_stream();
        earlier.map_or(result, Err)
    }

    /// # Errors
    /// `InvalidQueue` on the thread that runs a function of this queue, which would wait for itself.
    pub(crate) fn refuse_runner(&self) -> Result<()> {
        match self.keeps.load(Ordering::Acquire) {
            true => refuse_runner(&self.state.lock()),
            false => Ok(()),
        }
    }

    /// Whether all that was queued is done.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let _current = self.device.enter()?;
        if self.keeps.load(Ordering::Acquire) {
            let state = self.state.lock();
            if state.done < state.kept {
                return Ok(false);
            }
        }
        // SAFETY: the stream is live.
        match unsafe { self.device.driver().query_stream(self.stream) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.is(Code::NOT_READY) => Ok(false),
            Err(failure) => Err(self.device.failed("asking whether a queue is idle", failure)),
        }
    }

    /// How much of a range of the host's memory is page-locked, by us or by others. The context is current.
    #[inline(always)]
    pub(crate) fn locked(&self, start: u64, bytes: u64) -> Locked {
        let memory = &self.device.memory;
        if memory.has_pinned() {
            if self.pinned.lock().covers(memory, start, bytes) {
                return Locked::All;
            }
            if memory.knows_some(start, bytes) {
                return Locked::Some;
            }
        }
        locked_by_others(self.device.driver(), start, bytes)
    }

    /// Copies memory of the host to where `hand` finds it, at the address that it is given, and may leave
    /// it to the stream. None if there is no room. The context is current, and whoever queues the copy
    /// vouches for its range.
    #[inline(always)]
    pub(crate) fn stage(
        &self,
        start: u64,
        bytes: u64,
        hand: impl FnOnce(u64) -> Call,
    ) -> Option<Call> {
        let mut staging = self.staging.lock();
        let staged = match staging.take(&self.device, self.stream, bytes) {
            Ok(staged) => staged?,
            Err(failure) => return Some(Err(failure)),
        };
        // SAFETY: promised by the caller; the staging memory is the host's and nobody else's.
        unsafe {
            std::ptr::copy_nonoverlapping(start as *const u8, staged as *mut u8, bytes as usize);
        }
        Some(hand(staged))
    }

    /// The first failure that nobody was told of; it stays so.
    pub(crate) fn untold(&self) -> Option<Error> {
        self.state.lock().error.clone()
    }

    /// Keeps a failure for the next that asks.
    pub(crate) fn keep_error(&self, error: Error) {
        self.state.lock().error.get_or_insert(error);
    }

    /// Blocks until the stream has done what it was given.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    #[inline(always)]
    pub(crate) fn synchronize_stream(&self) -> Result<()> {
        let handed = self.in_flight.handed();
        let _current = self.device.enter()?;
        // SAFETY: the stream is live.
        let result = unsafe { self.device.driver().synchronize_stream(self.stream) };
        result.map_err(|failure| self.not_done(failure))?;
        self.in_flight.are_done(handed);
        D::was_waited_for(&self.device);
        Ok(())
    }

    #[cold]
    fn not_done(&self, failure: Failure) -> Error {
        let queue = self.in_flight.queue;
        self.device.failed(format_args!("waiting for queue {queue}"), failure)
    }

    /// The same, but asleep, if that can be: whoever waits on a thread of the crew is in no hurry, and the driver
    /// otherwise burns a processor.
    ///
    /// # Errors
    /// As for [`Line::synchronize_stream`].
    pub(crate) fn sleep_until_stream_is_done(&self) -> Result<()> {
        let handed = self.in_flight.handed();
        let (driver, _current) = (self.device.driver(), self.device.enter()?);
        let Ok(sleeper) = self.device.take_event(EventKind::Sleeper) else {
            return self.synchronize_stream();
        };
        // SAFETY: both are live and of one context.
        let recorded = unsafe { driver.record_event(sleeper, self.stream) };
        let result = match recorded {
            // SAFETY: as above.
            Ok(()) => unsafe { driver.synchronize_event(sleeper) },
            Err(_) => Ok(()),
        };
        self.device.give_event(sleeper, EventKind::Sleeper);
        if recorded.is_err() {
            return self.synchronize_stream();
        }
        result.map_err(|failure| self.not_done(failure))?;
        self.in_flight.are_done(handed);
        D::was_waited_for(&self.device);
        Ok(())
    }

    /// Does steps until none is left, or the next one waits for a record, which is the answer.
    fn do_steps(self: &Arc<Line<D>>) -> Option<Arc<Record<D>>> {
        // Each step enters the device too, so it matters to functions of the program alone whether this fails.
        let _current = self.device.context().visit().ok();
        let mut state = self.state.lock();
        loop {
            if let Some(Step::Wait(record)) = state.steps.front()
                && !record.is_submitted()
            {
                return Some(Arc::clone(record));
            }
            let Some(step) = state.steps.pop_front() else {
                self.keeps.store(false, Ordering::Release);
                return None;
            };
            if step.is_function() {
                state.runner = Some(thread::current().id());
            }
            let result = MutexGuard::unlocked(&mut state, || step.run(self));
            state.runner = None;
            if let Err(error) = result {
                log::warn!("{error}");
                state.error.get_or_insert(error);
            }
            state.done += 1;
            self.moved.notify_all();
        }
    }
}

/// A line that keeps work. The device is not closed before that is done.
pub struct BusyLine<D: Driver> {
    // Dropped in this order: whoever waits for the line may close the device then.
    line: Arc<Line<D>>,
    _at_work: AtWork,
}

impl<D: Driver> BusyLine<D> {
    fn new(line: &Arc<Line<D>>) -> BusyLine<D> {
        BusyLine { line: Arc::clone(line), _at_work: line.device.at_work() }
    }

    /// The threads of all queues of a backend, with this name.
    pub const fn crew(name: &'static str) -> Crew<BusyLine<D>> {
        Crew::new(name, MOST_THREADS, BusyLine::attend)
    }

    /// Does steps until none is left, or the line is parked.
    fn attend(self) {
        let mut line = self;
        while let Some(record) = line.line.do_steps() {
            // A parked line may be done before this thread has let go of the record, which keeps the device.
            let at_work = line.line.device.at_work();
            let back = record.park(line);
            drop(record);
            drop(at_work);
            match back {
                Some(back) => line = back,
                None => return,
            }
        }
    }
}

impl<D: Driver> Drop for Line<D> {
    fn drop(&mut self) {
        let staging = std::mem::take(self.staging.get_mut());
        self.device.give_stream(self.stream, staging);
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
    let message = "a host function waits for its own queue, which waits for the host function";
    Error::new(ErrorCode::InvalidQueue, message)
}
