//! Records: places in queues that the driver has, or will get.

use crate::call::Code;
use crate::device_core::DeviceCore;
use crate::driver::{Driver, EventKind};
use crate::handle::Event;
use crate::queue_stream::QueueStream;
use crate::worker_pool::{BusyQueue, WaitTarget};
use longshore_plugin_api::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A place in a queue: an event of the driver, which a queue with kept commands has not recorded
/// yet.
pub(crate) struct Record<D: Driver> {
    device: Arc<DeviceCore<D>>,
    pub(crate) raw: Event,
    kind: EventKind,
    /// Whether the driver has recorded or refused the event. Written with the lock of `submission`,
    /// read without it.
    submitted: AtomicBool,
    submission: Mutex<Submission>,
    changed: Condvar,
    /// The first failure of work before the record that its queue has returned to no caller.
    behind: Mutex<Option<Error>>,
}

/// The outcome of handing a record to the driver, and the submission queues that wait for it.
struct Submission {
    /// The error of a driver that refused the record. No call waits for the record then.
    failure: Option<Error>,
    /// Submission queues that go on when the driver has the record.
    parked: Vec<BusyQueue>,
}

impl<D: Driver> Record<D> {
    /// Creates a record that the driver does not have yet.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
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

    /// Returns whether the driver has recorded or refused the event.
    pub(crate) fn is_submitted(&self) -> bool {
        self.submitted.load(Ordering::Acquire)
    }

    /// Records the event on a queue stream of its device.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
    pub(crate) fn submit(&self, queue_stream: &QueueStream<D>) -> Result<()> {
        let recorded = self.device.enter().and_then(|_current| {
            // SAFETY: event and stream are live and of one context.
            let recorded =
                unsafe { self.device.driver().record_event(self.raw, queue_stream.stream()) };
            self.device.check("recording an event", recorded)
        });
        *self.behind.lock() = queue_stream.pending_error();
        let mut submission = self.submission.lock();
        submission.failure = recorded.clone().err();
        self.submitted.store(true, Ordering::Release);
        self.changed.notify_all();
        let parked = std::mem::take(&mut submission.parked);
        drop(submission);
        parked.into_iter().for_each(|queue| D::worker_pool().call(queue));
        recorded
    }

    /// Blocks until the driver has recorded or refused the event.
    fn await_submission(&self) {
        if self.is_submitted() {
            return;
        }
        let mut submission = self.submission.lock();
        while !self.is_submitted() {
            self.changed.wait(&mut submission);
        }
    }

    /// Makes later work on a queue stream wait for the record, and gives the queue stream
    /// the pending error from before the record. The driver has the record.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
    pub(crate) fn hold_up(&self, queue_stream: &QueueStream<D>) -> Result<()> {
        if self.submission.lock().failure.is_some() {
            return queue_stream.device().refuse_if_lost();
        }
        if let Some(error) = self.behind.lock().clone() {
            queue_stream.keep_error(error);
        }
        let device = queue_stream.device();
        let _current = device.enter()?;
        // SAFETY: stream and event are live.
        let waits = unsafe { device.driver().wait_event(queue_stream.stream(), self.raw) };
        waits.map_err(|failure| device.failed_with(&self.device, "waiting for an event", failure))
    }

    /// Returns whether the device has reached the record.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
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
            Err(failure) => Err(self.device.failed("querying an event", failure)),
        }
    }

    /// Blocks until the device has reached the record.
    ///
    /// # Errors
    /// The first failure before the record that its queue had returned to no caller; a lost device;
    /// errors of the driver.
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

impl<D: Driver> WaitTarget for Record<D> {
    fn park(&self, queue: BusyQueue) -> Option<BusyQueue> {
        let mut submission = self.submission.lock();
        if self.is_submitted() {
            return Some(queue);
        }
        submission.parked.push(queue);
        None
    }
}

impl<D: Driver> Drop for Record<D> {
    fn drop(&mut self) {
        self.device.give_event(self.raw, self.kind);
    }
}
