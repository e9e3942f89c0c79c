//! Events.

use crate::HostBackend;
use crate::record::Record;
use crate::submission_queue::SubmissionQueue;
use longshore_plugin_api::{Error, ErrorCode, Event, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An event, which refers to its latest record in a queue. The event may outlive the queue.
///
/// A host function must not synchronize an event that is recorded behind the function in the same
/// queue, because it would wait for itself. The host refuses such a call.
///
/// LLVM: `ol_event_handle_t`.
pub struct HostEvent {
    device: u32,
    timing: bool,
    last: Mutex<Option<Arc<Record>>>,
    /// Whether the last record is known to be reached, or no record exists. Written under the lock
    /// of `last`, read without it.
    is_known_complete: AtomicBool,
}

impl HostEvent {
    /// Creates an event of device `device` without a record.
    pub(crate) fn new(device: u32, timing: bool) -> HostEvent {
        let is_known_complete = AtomicBool::new(true);
        HostEvent { device, timing, last: Mutex::new(None), is_known_complete }
    }

    /// Records the event at the tail of a submission queue. An idle queue has reached its tail
    /// already.
    pub(crate) fn record_at(&self, queue: &Arc<SubmissionQueue>) -> Result<()> {
        let mut last = self.last.lock();
        self.is_known_complete.store(false, Ordering::Relaxed);
        let record = self.renewed(last.take());
        match queue.idle_role() {
            Some(_role) => {
                record.reach(queue.pending_error());
                self.is_known_complete.store(true, Ordering::Release);
            }
            None => queue.push(|batch| batch.reach(Arc::clone(&record)))?,
        }
        *last = Some(record);
        Ok(())
    }

    /// Returns the last record, if one exists.
    fn last(&self) -> Option<Arc<Record>> {
        self.last.lock().clone()
    }

    /// Returns the last record, if a queue that waits for the record must block, or must take over
    /// its failure.
    pub(crate) fn to_wait_for(&self) -> Option<Arc<Record>> {
        self.last().filter(|record| !record.is_reached() || record.failure().is_some())
    }

    /// Returns an unshared record. Reuses the previous record if possible, to avoid an allocation.
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
    // Inlined in the functions of the table, which another crate exports.
    #[inline]
    fn is_complete(&self) -> Result<bool> {
        // Acquires the work before the record, which the storing thread had acquired or done.
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
