//! Events: places in queues.

use crate::backend::StreamBackend;
use crate::call::Code;
use crate::device::DeviceCore;
use crate::driver::{Driver, EventKind};
use crate::handle::Event as RawEvent;
use crate::line::{BusyLine, Line};
use crate::step::Step;
use longshore_plugin_api::{Error, ErrorCode, Event, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An event: the last place of a queue that it was recorded at. Independent of that queue's life.
///
/// A host function that synchronizes an event recorded behind it on its own queue waits for itself:
/// the host refuses that.
///
/// LLVM: `ol_event_handle_t`.
pub struct StreamEvent<D: Driver> {
    device: Arc<DeviceCore<D>>,
    timing: bool,
    last: Mutex<Option<Arc<Record<D>>>>,
}

/// A place in a queue: an event of the driver, which a queue that keeps its work has not recorded yet.
pub(crate) struct Record<D: Driver> {
    device: Arc<DeviceCore<D>>,
    raw: RawEvent,
    kind: EventKind,
    /// The driver has it, or has refused it. Set with the lock of `submission`, looked at without.
    submitted: AtomicBool,
    submission: Mutex<Submission<D>>,
    changed: Condvar,
    /// The first failure before it that its queue has told nobody of.
    behind: Mutex<Option<Error>>,
}

/// Whether a record could be handed to the driver, and the lines that wait for that.
struct Submission<D: Driver> {
    /// Why the driver did not record it. Nobody waits for it then.
    failure: Option<Error>,
    /// Lines that go on when the driver has it.
    parked: Vec<BusyLine<D>>,
}

impl<D: Driver> StreamEvent<D> {
    /// An event that was recorded nowhere.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>, timing: bool) -> StreamEvent<D> {
        StreamEvent { device: Arc::clone(device), timing, last: Mutex::new(None) }
    }

    /// The last record, unless there is none.
    pub(crate) fn last(&self) -> Option<Arc<Record<D>>> {
        self.last.lock().clone()
    }

    /// Records it at the tail of a line.
    ///
    /// # Errors
    /// `InvalidDevice` if the line is of another device; a lost device; those of the driver.
    pub(crate) fn record_at(&self, line: &Arc<Line<D>>) -> Result<()> {
        if !Arc::ptr_eq(&self.device, line.device()) {
            return Err(self.of_another(line.device(), "recorded on a queue of"));
        }
        let mut last = self.last.lock();
        if let Some(keeping) = line.keeping() {
            let record = Record::new(&self.device, self.timing)?;
            keeping.push(Step::Record(Arc::clone(&record)));
            *last = Some(record);
            return Ok(());
        }
        // What somebody still waits for must keep its meaning.
        let unused =
            last.as_ref().filter(|record| Arc::strong_count(record) == 1 && record.is_submitted());
        let record = match unused {
            Some(record) => Arc::clone(record),
            None => Record::new(&self.device, self.timing)?,
        };
        record.submit(line)?;
        *last = Some(record);
        Ok(())
    }

    /// The driver's event, once it was reached.
    fn reached(&self, which: &str) -> Result<Arc<Record<D>>> {
        let record = self.last().ok_or_else(|| not_ready(which, "never recorded"))?;
        match record.is_reached()? {
            true => Ok(record),
            false => Err(not_ready(which, "not complete")),
        }
    }

    #[cold]
    fn of_another(&self, other: &DeviceCore<D>, how: &str) -> Error {
        let (ours, theirs) = (&self.device.facts().name, &other.facts().name);
        let message = format!(
            "an event of '{ours}' {how} '{theirs}', which is opened apart; expected the same device"
        );
        Error::new(ErrorCode::InvalidDevice, message)
    }
}

impl<B: StreamBackend> Event<B> for StreamEvent<B::Driver> {
    fn is_complete(&self) -> Result<bool> {
        self.device.refuse_if_lost()?;
        self.last().map_or(Ok(true), |record| record.is_reached())
    }

    fn synchronize(&self) -> Result<()> {
        self.device.refuse_if_lost()?;
        self.last().map_or(Ok(()), |record| record.synchronize())
    }

    /// As exact as the driver's event times: half a microsecond, or, as they are of 32 bits, one part in 16
    /// million.
    fn elapsed_ns(&self, end: &StreamEvent<B::Driver>) -> Result<i64> {
        for (which, event) in [("start", self), ("end", end)] {
            if !event.timing {
                let message = format!("the {which} event was made without timing");
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
        }
        if !Arc::ptr_eq(&self.device, &end.device) {
            return Err(self.of_another(&end.device, "measured against one of"));
        }
        let (start, end) = (self.reached("start")?, end.reached("end")?);
        let mut milliseconds = 0f32;
        self.device.call("measuring between events", |driver| {
            // SAFETY: the output is ours; both events are live and of this device.
            unsafe { driver.elapsed(&mut milliseconds, start.raw, end.raw) }
        })?;
        Ok((f64::from(milliseconds) * 1e6).round() as i64)
    }
}

impl<D: Driver> Record<D> {
    fn new(device: &Arc<DeviceCore<D>>, timing: bool) -> Result<Arc<Record<D>>> {
        let kind = if timing { EventKind::Timed } else { EventKind::Plain };
        let _current = device.enter()?;
        Ok(Arc::new(Record {
            raw: device.take_event(kind)?,
            device: Arc::clone(device),
            kind,
            submitted: AtomicBool::new(false),
            submission: Mutex::new(Submission { failure: None, parked: Vec::new() }),
            changed: Condvar::new(),
            behind: Mutex::new(None),
        }))
    }

    /// Whether the driver has it.
    pub(crate) fn is_submitted(&self) -> bool {
        self.submitted.load(Ordering::Acquire)
    }

    /// Records it on the stream of a line of its device.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn submit(&self, line: &Line<D>) -> Result<()> {
        let recorded = self.device.enter().and_then(|_current| {
            // SAFETY: both are live and of one context.
            let recorded = unsafe { self.device.driver().record_event(self.raw, line.stream()) };
            self.device.check("recording an event", recorded)
        });
        *self.behind.lock() = line.untold();
        let mut submission = self.submission.lock();
        submission.failure = recorded.clone().err();
        self.submitted.store(true, Ordering::Release);
        self.changed.notify_all();
        let parked = std::mem::take(&mut submission.parked);
        drop(submission);
        parked.into_iter().for_each(|line| D::crew().call(line));
        recorded
    }

    /// Has the crew attend to a line when the driver has it. Gives the line back if the driver has it already.
    pub(crate) fn park(&self, line: BusyLine<D>) -> Option<BusyLine<D>> {
        let mut submission = self.submission.lock();
        if self.is_submitted() {
            return Some(line);
        }
        submission.parked.push(line);
        None
    }

    /// Blocks until the driver has it.
    fn await_submission(&self) {
        if self.is_submitted() {
            return;
        }
        let mut submission = self.submission.lock();
        while !self.is_submitted() {
            self.changed.wait(&mut submission);
        }
    }

    /// Makes what comes next on the stream of a line wait for it, and the line take over the failure
    /// that it is behind. The driver has it.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn hold_up(&self, line: &Line<D>) -> Result<()> {
        if self.submission.lock().failure.is_some() {
            return line.device().refuse_if_lost();
        }
        if let Some(error) = self.behind.lock().clone() {
            line.keep_error(error);
        }
        let device = line.device();
        let _current = device.enter()?;
        // SAFETY: both are live.
        let waits = unsafe { device.driver().wait_event(line.stream(), self.raw) };
        waits.map_err(|failure| device.failed_with(&self.device, "waiting for an event", failure))
    }

    fn is_reached(&self) -> Result<bool> {
        if !self.is_submitted() {
            return Ok(false);
        }
        self.refuse_failed()?;
        let _current = self.device.enter()?;
        // SAFETY: the event is live.
        match unsafe { self.device.driver().query_event(self.raw) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.is(Code::NOT_READY) => Ok(false),
            Err(failure) => Err(self.device.failed("asking for an event", failure)),
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.await_submission();
        self.refuse_failed()?;
        self.device.call("waiting for an event", |driver| {
            // SAFETY: the event is live.
            unsafe { driver.synchronize_event(self.raw) }
        })?;
        D::was_waited_for(&self.device);
        self.behind.lock().clone().map_or(Ok(()), Err)
    }

    fn refuse_failed(&self) -> Result<()> {
        self.submission.lock().failure.clone().map_or(Ok(()), Err)
    }
}

impl<D: Driver> Drop for Record<D> {
    fn drop(&mut self) {
        self.device.give_event(self.raw, self.kind);
    }
}

#[cold]
fn not_ready(which: &str, state: &str) -> Error {
    let message = format!("the {which} event is {state}; expected one that was reached");
    Error::new(ErrorCode::InvalidEvent, message)
}
