//! Events, and the places in queues that they are recorded at.

use crate::HostBackend;
use crate::crew::crew;
use crate::line::Line;
use longshore_plugin_api::{Error, ErrorCode, Event, Result};
use parking_lot::Mutex;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// An event: the last place of a queue that it was recorded at. Independent of that queue's life.
///
/// A host function that synchronizes an event recorded behind it on its own queue waits for itself:
/// the host refuses that.
///
/// LLVM: `ol_event_handle_t`.
pub struct HostEvent {
    device: u32,
    timing: bool,
    last: Mutex<Option<Arc<Record>>>,
    /// Whether the last record is known to be reached, or there is none. Changed with the lock of `last`, read without.
    is_known_complete: AtomicBool,
}

impl HostEvent {
    /// Returns an event of device `device`, recorded nowhere.
    pub(crate) fn new(device: u32, timing: bool) -> HostEvent {
        let is_known_complete = AtomicBool::new(true);
        HostEvent { device, timing, last: Mutex::new(None), is_known_complete }
    }

    /// Records it at the tail of a line. An idle line has reached its tail already.
    pub(crate) fn record_at(&self, line: &Arc<Line>) -> Result<()> {
        let mut last = self.last.lock();
        self.is_known_complete.store(false, Ordering::Relaxed);
        let record = self.renewed(last.take());
        match line.idle_role() {
            Some(_role) => {
                record.reach(line.untold());
                self.is_known_complete.store(true, Ordering::Release);
            }
            None => line.push(|batch| batch.reach(Arc::clone(&record)))?,
        }
        *last = Some(record);
        Ok(())
    }

    /// The last record, unless there is none.
    fn last(&self) -> Option<Arc<Record>> {
        self.last.lock().clone()
    }

    /// The last record, if a queue that waits for it has something to wait for or to take over.
    pub(crate) fn to_wait_for(&self) -> Option<Arc<Record>> {
        self.last().filter(|record| !record.is_reached() || record.failure().is_some())
    }

    /// A record that nobody else has: the former one again where possible, which allocates nothing.
    fn renewed(&self, former: Option<Arc<Record>>) -> Arc<Record> {
        if let Some(mut former) = former
            && let Some(record) = Arc::get_mut(&mut former)
        {
            *record = Record::new(self.timing);
            return former;
        }
        Arc::new(Record::new(self.timing))
    }

    fn reached_ns(&self, which: &str) -> Result<i64> {
        let last = self.last.lock();
        let record = last.as_ref().ok_or_else(|| not_ready(which, "never recorded"))?;
        record.reached_ns().ok_or_else(|| not_ready(which, "not complete"))
    }
}

impl Event<HostBackend> for HostEvent {
    fn is_complete(&self) -> Result<bool> {
        // Acquires the work before the record, which the thread that stored this had acquired or done.
        if self.is_known_complete.load(Ordering::Acquire) {
            return Ok(true);
        }
        let last = self.last.lock();
        let is_complete = last.as_ref().is_none_or(|record| record.is_reached());
        if is_complete {
            self.is_known_complete.store(true, Ordering::Release);
        }
        Ok(is_complete)
    }

    fn synchronize(&self) -> Result<()> {
        let Some(record) = self.last() else { return Ok(()) };
        record.wait();
        record.failure().cloned().map_or(Ok(()), Err)
    }

    fn elapsed_ns(&self, end: &HostEvent) -> Result<i64> {
        for (which, event) in [("start", self), ("end", end)] {
            if !event.timing {
                let message = format!("the {which} event was made without timing");
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
        }
        if self.device != end.device {
            let message = format!(
                "the start event is of device {}, the end event of device {}; expected the same",
                self.device, end.device
            );
            return Err(Error::new(ErrorCode::InvalidDevice, message));
        }
        Ok(end.reached_ns("end")? - self.reached_ns("start")?)
    }
}

#[cold]
fn not_ready(which: &str, state: &str) -> Error {
    let message = format!("the {which} event is {state}; expected one that was reached");
    Error::new(ErrorCode::InvalidEvent, message)
}

/// A place in a queue. Once reached, it stays so.
pub(crate) struct Record {
    state: AtomicU32,
    timed: bool,
    reached_ns: AtomicI64,
    failure: OnceLock<Error>,
    /// The lines that go on when it is reached.
    lines: Mutex<Vec<Arc<Line>>>,
}

const UNREACHED: u32 = 0;
const REACHED: u32 = 1;
/// Not reached, and somebody sleeps until it is.
const AWAITED: u32 = 2;

impl Record {
    /// A place that was not reached; `timed` if the time of reaching it will be asked for.
    pub(crate) fn new(timed: bool) -> Record {
        Record {
            state: AtomicU32::new(UNREACHED),
            timed,
            reached_ns: AtomicI64::new(0),
            failure: OnceLock::new(),
            lines: Mutex::default(),
        }
    }

    /// Whether it was reached; if so, all that was queued before it is visible.
    pub(crate) fn is_reached(&self) -> bool {
        self.state.load(Ordering::Acquire) == REACHED
    }

    /// The failure that it was reached with.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Reaches it, once. `failure` is the first one before it that its queue has told nobody of.
    pub(crate) fn reach(&self, failure: Option<Error>) {
        if let Some(failure) = failure {
            let _ = self.failure.set(failure);
        }
        if self.timed {
            self.reached_ns.store(monotonic_ns(), Ordering::Relaxed);
        }
        if self.state.swap(REACHED, Ordering::AcqRel) == AWAITED {
            // The only error is a bad address, which the borrow rules out.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, i32::MAX as u32);
            let lines = std::mem::take(&mut *self.lines.lock());
            lines.into_iter().for_each(|line| crew().call(line));
        }
    }

    /// Has the crew attend to a line when it is reached; false if it was reached before.
    pub(crate) fn call_when_reached(&self, line: &Arc<Line>) -> bool {
        // The thread that reaches the event takes the list once the state says that a queue waits; the lock guards that state.
        let mut lines = self.lines.lock();
        let is_waiting = self.is_awaited();
        if is_waiting {
            lines.push(Arc::clone(line));
        }
        is_waiting
    }

    /// Notes that somebody waits for it; false if it was reached.
    fn is_awaited(&self) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Acquire);
        self.state.compare_exchange(UNREACHED, AWAITED, success, failure) != Err(REACHED)
    }

    /// Blocks until it is reached: spins for a moment, then sleeps.
    pub(crate) fn wait(&self) {
        if spin_until(Duration::from_micros(20), || self.is_reached()) {
            return;
        }
        while self.is_awaited() {
            // An early return, by a signal or a state that changed meanwhile, goes round again.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
    }

    /// When it was reached, by `CLOCK_MONOTONIC`.
    fn reached_ns(&self) -> Option<i64> {
        self.is_reached().then(|| self.reached_ns.load(Ordering::Relaxed))
    }
}

/// Spins until `ready`, for about `limit`; answers whether it was. Gives the processor to other
/// threads now and then, so that whoever makes it ready gets its turn on a busy machine too.
pub(crate) fn spin_until(limit: Duration, ready: impl Fn() -> bool) -> bool {
    const SPINS: u32 = 64;
    let begin = Instant::now();
    loop {
        for _ in 0..SPINS {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        if begin.elapsed() >= limit {
            return false;
        }
        std::thread::yield_now();
    }
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
