//! Events: places in queues.

use crate::command::Command;
use crate::device_core::DeviceCore;
use crate::driver::Driver;
use crate::record::Record;
use crate::submission_queue::SubmissionQueue;
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// An event: the last place of a queue that the event was recorded at. An event does not depend on
/// that queue's life.
///
/// A host function that synchronizes an event recorded after it on its own queue would wait for
/// itself: the host refuses the call.
///
/// LLVM: `ol_event_handle_t`.
pub struct StreamEvent<D: Driver> {
    pub(crate) device: Arc<DeviceCore<D>>,
    pub(crate) timing: bool,
    last: Mutex<Option<Arc<Record<D>>>>,
}

impl<D: Driver> StreamEvent<D> {
    /// Creates an event that is not recorded.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>, timing: bool) -> StreamEvent<D> {
        StreamEvent { device: Arc::clone(device), timing, last: Mutex::new(None) }
    }

    /// Returns the last record, if any.
    pub(crate) fn last(&self) -> Option<Arc<Record<D>>> {
        self.last.lock().clone()
    }

    /// Records the event at the tail of a submission queue.
    ///
    /// # Errors
    /// `InvalidDevice` if the queue is of another device; a lost device; errors of the driver.
    pub(crate) fn record_at(&self, queue: &Arc<SubmissionQueue<D>>) -> Result<()> {
        if !Arc::ptr_eq(&self.device, queue.device()) {
            return Err(self.other_device_error(queue.device(), "recorded on a queue of"));
        }
        let mut last = self.last.lock();
        if let Some(deferred) = queue.deferred() {
            let record = Record::new(&self.device, self.timing)?;
            deferred.push(Command::Record(Arc::clone(&record)));
            *last = Some(record);
            return Ok(());
        }
        // A record that a call or another queue still waits for must not move to a new place.
        let unused =
            last.as_ref().filter(|record| Arc::strong_count(record) == 1 && record.is_submitted());
        let record = match unused {
            Some(record) => Arc::clone(record),
            None => Record::new(&self.device, self.timing)?,
        };
        record.submit(queue)?;
        *last = Some(record);
        Ok(())
    }

    /// Returns the last record, which the device has reached. `which` names the event in errors.
    ///
    /// # Errors
    /// `InvalidEvent` if the device has not reached it; a lost device; errors of the driver.
    pub(crate) fn reached(&self, which: &str) -> Result<Arc<Record<D>>> {
        let record = self.last().ok_or_else(|| not_ready(which, "never recorded"))?;
        match record.is_reached()? {
            true => Ok(record),
            false => Err(not_ready(which, "not complete")),
        }
    }

    /// Returns the error for a use of the event with another device.
    #[cold]
    pub(crate) fn other_device_error(&self, other: &DeviceCore<D>, how: &str) -> Error {
        let (ours, theirs) = (&self.device.facts().name, &other.facts().name);
        let message = format!(
            "an event of '{ours}' {how} '{theirs}', which is opened apart; expected the same device"
        );
        Error::new(ErrorCode::InvalidDevice, message)
    }
}

#[cold]
fn not_ready(which: &str, state: &str) -> Error {
    let message = format!("the {which} event is {state}; expected one that was reached");
    Error::new(ErrorCode::InvalidEvent, message)
}
