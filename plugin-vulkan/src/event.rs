//! Events, and the times of their completion.

use crate::VulkanBackend;
use crate::batch::Batch;
use crate::device_core::DeviceCore;
use crate::place::Place;
use crate::submission_queue::SubmissionQueue;
use crate::timestamps::QuerySlot;
use longshore_plugin_api::{Error, ErrorCode, Event, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// An event, which refers to its latest record in a queue. The event may outlive the queue.
///
/// A host function must not synchronize an event that is recorded behind the function in the same
/// queue, because it would wait for itself. The host refuses such a call.
///
/// LLVM: `ol_event_handle_t`.
pub struct VulkanEvent {
    device: Arc<DeviceCore>,
    timing: bool,
    last: Mutex<Option<Record>>,
}

/// A place in a queue.
#[derive(Clone)]
struct Record {
    place: Place,
    time: Option<Arc<QuerySlot>>,
}

impl VulkanEvent {
    /// Creates an event without a record.
    pub(crate) fn new(device: &Arc<DeviceCore>, timing: bool) -> Result<VulkanEvent> {
        if timing && device.physical.limits.timestamp_bits == 0 {
            let name = &device.physical.name;
            let message = format!("'{name}' has no timed events: its queues have no timestamps");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        Ok(VulkanEvent { device: Arc::clone(device), timing, last: Mutex::new(None) })
    }

    /// Records the event at the tail of a submission queue.
    ///
    /// # Errors
    /// `InvalidDevice` if the queue belongs to another device, and the errors of
    /// [`SubmissionQueue::tail`].
    pub(crate) fn record_at(&self, queue: &Arc<SubmissionQueue>) -> Result<()> {
        if !Arc::ptr_eq(&self.device, queue.device()) {
            let (ours, theirs) = (&self.device.physical.name, &queue.device().physical.name);
            let message = format!(
                "an event of '{ours}' cannot be recorded on a queue of '{theirs}', which is opened \
                 apart; expected the same device"
            );
            return Err(Error::new(ErrorCode::InvalidDevice, message));
        }
        let time = match self.timing {
            true => Some(self.device.timestamps.take()?),
            false => None,
        };
        let mark = time.as_ref().map(|slot| |batch: &mut Batch| batch.timestamp(slot));
        *self.last.lock() = Some(Record { place: queue.tail(mark)?, time });
        Ok(())
    }

    /// Returns the place of the last record, if one exists.
    pub(crate) fn place(&self) -> Option<Place> {
        let last = self.last.lock();
        last.as_ref().map(|record| record.place.clone())
    }

    /// Returns the device's ticks at which the event was reached.
    fn ticks(&self, which: &str) -> Result<u64> {
        let record = self.last.lock().clone();
        let record = record.ok_or_else(|| not_ready(which, "never recorded"))?;
        if !record.place.is_reached()? {
            return Err(not_ready(which, "not complete"));
        }
        let slot = record.time.ok_or_else(|| not_ready(which, "recorded without timing"))?;
        slot.read()
    }
}

impl Event<VulkanBackend> for VulkanEvent {
    fn is_complete(&self) -> Result<bool> {
        self.device.refuse_if_lost()?;
        self.place().map_or(Ok(true), |place| place.is_reached())
    }

    fn synchronize(&self) -> Result<()> {
        self.device.refuse_if_lost()?;
        self.place().map_or(Ok(()), |place| place.wait())
    }

    fn elapsed_ns(&self, end: &VulkanEvent) -> Result<i64> {
        for (which, event) in [("start", self), ("end", end)] {
            if !event.timing {
                let message = format!("the {which} event was made without timing");
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
        }
        if !Arc::ptr_eq(&self.device, &end.device) {
            let (ours, theirs) = (&self.device.physical.name, &end.device.physical.name);
            let message = format!(
                "the start event is of '{ours}', the end event of '{theirs}', which is opened \
                 apart; expected the same device"
            );
            return Err(Error::new(ErrorCode::InvalidDevice, message));
        }
        let (start, end) = (self.ticks("start")?, end.ticks("end")?);
        let limits = &self.device.physical.limits;
        let ticks = difference(start, end, limits.timestamp_bits);
        Ok((ticks as f64 * f64::from(limits.timestamp_period)).round() as i64)
    }
}

/// Returns the ticks from one timestamp to another. Timestamps have `bits` valid bits and wrap
/// around.
fn difference(start: u64, end: u64, bits: u32) -> i64 {
    let unused = 64u32.saturating_sub(bits);
    ((end.wrapping_sub(start) << unused) as i64) >> unused
}

#[cold]
fn not_ready(which: &str, state: &str) -> Error {
    let message = format!("the {which} event is {state}; expected one that was reached");
    Error::new(ErrorCode::InvalidEvent, message)
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn times_wrap_around_and_go_backwards() {
        assert_eq!(difference(5, 9, 64), 4);
        assert_eq!(difference(9, 5, 64), -4);
        assert_eq!(difference((1 << 36) - 1, 3, 36), 4);
        assert_eq!(difference(3, (1 << 36) - 1, 36), -4);
    }
}
