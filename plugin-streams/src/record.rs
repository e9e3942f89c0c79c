//! Records: places in queues that the driver is given, or will be.

use crate::call::Code;
use crate::crew::{Awaited, BusyLine};
use crate::device_core::DeviceCore;
use crate::driver::{Driver, EventKind};
use crate::handle::Event;
use crate::lane::Lane;
use longshore_plugin_api::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A place in a queue: an event of the driver, which a queue that keeps its work has not recorded yet.
pub(crate) struct Record<D: Driver> {
    device: Arc<DeviceCore<D>>,
    pub(crate) raw: Event,
    kind: EventKind,
    /// The driver has it, or has refused it. Set with the lock of `submission`, looked at without.
    submitted: AtomicBool,
    submission: Mutex<Submission>,
    changed: Condvar,
    /// The first failure before it that its queue has returned to no caller.
    behind: Mutex<Option<Error>>,
}

/// Whether a record could be handed to the driver, and the lines that wait for that.
struct Submission {
    /// The error of a driver that did not record it. No call waits for it then.
    failure: Option<Error>,
    /// Lines that go on when the driver has the record.
    parked: Vec<BusyLine>,
}

impl<D: Driver> Record<D> {
    /// Returns a record that the driver does not have.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>, timing: bool) -> Result<Arc<Record<D>>> {
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

    /// Returns whether the driver has the record, or has refused it.
    pub(crate) fn is_submitted(&self) -> bool {
        self.submitted.load(Ordering::Acquire)
    }

    /// Records it on the stream of a lane of its device.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn submit(&self, lane: &Lane<D>) -> Result<()> {
        let recorded = self.device.enter().and_then(|_current| {
            // SAFETY: both are live and of one context.
            let recorded = unsafe { self.device.driver().record_event(self.raw, lane.stream()) };
            self.device.check("recording an event", recorded)
        });
        *self.behind.lock() = lane.untold();
        let mut submission = self.submission.lock();
        submission.failure = recorded.clone().err();
        self.submitted.store(true, Ordering::Release);
        self.changed.notify_all();
        let parked = std::mem::take(&mut submission.parked);
        drop(submission);
        parked.into_iter().for_each(|line| D::crew().call(line));
        recorded
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

    /// Makes what comes next on the stream of a lane wait for it, and the lane take over the failure
    /// that it is behind. The driver has it.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn hold_up(&self, lane: &Lane<D>) -> Result<()> {
        if self.submission.lock().failure.is_some() {
            return lane.device().refuse_if_lost();
        }
        if let Some(error) = self.behind.lock().clone() {
            lane.keep_error(error);
        }
        let device = lane.device();
        let _current = device.enter()?;
        // SAFETY: both are live.
        let waits = unsafe { device.driver().wait_event(lane.stream(), self.raw) };
        waits.map_err(|failure| device.failed_with(&self.device, "waiting for an event", failure))
    }

    /// Returns whether the device has come to it.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn is_reached(&self) -> Result<bool> {
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

    /// Blocks until the device has come to it.
    ///
    /// # Errors
    /// The first failure before it that its queue had returned to no caller; a lost device; those of the driver.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.await_submission();
        self.refuse_failed()?;
        self.device.call("waiting for an event", |driver| {
            // SAFETY: the event is live.
            unsafe { driver.synchronize_event(self.raw) }
        })?;
        self.device.was_waited_for();
        self.behind.lock().clone().map_or(Ok(()), Err)
    }

    fn refuse_failed(&self) -> Result<()> {
        self.submission.lock().failure.clone().map_or(Ok(()), Err)
    }
}

impl<D: Driver> Awaited for Record<D> {
    fn park(&self, line: BusyLine) -> Option<BusyLine> {
        let mut submission = self.submission.lock();
        if self.is_submitted() {
            return Some(line);
        }
        submission.parked.push(line);
        None
    }
}

impl<D: Driver> Drop for Record<D> {
    fn drop(&mut self) {
        self.device.give_event(self.raw, self.kind);
    }
}
