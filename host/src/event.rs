//! Events.

use crate::backend::AnyEvent;
use crate::device::Device;
use crate::device::events::EventCore;
use crate::host_function;
use crate::polling;
use longshore_plugin_api::{Error, ErrorCode, Event as _, Result};
use std::sync::Arc;
use std::time::Duration;

/// A point in a queue's order, made by [`Queue::record`](crate::Queue::record). It may outlive
/// its queue. Cloning is cheap. LLVM: `ol_event_handle_t`.
///
/// Waiting for an event tells of failures as waiting for its queue does: of the first one among the
/// work in front of the event that no [`Queue::synchronize`](crate::Queue::synchronize) had
/// reported when the event was reached. Each wait for the event answers it, and the queue keeps it
/// for its own next synchronization. A queue that [waits](crate::Queue::wait_for) for the event
/// takes the failure over.
///
/// ```
/// # let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// # let device = host.default_device()?;
/// let (fills, reads) = (device.queue()?, device.queue()?);
/// let start = fills.record_timed()?;
/// let zeros = device.buffer::<u64>(&fills, 1024)?;
/// let end = fills.record_timed()?;
///
/// // Work of the second queue comes behind the zeros. No thread of the program waits.
/// reads.wait_for(&end)?;
/// assert_eq!(zeros.to_vec(&reads)?, [0; 1024]);
///
/// println!("{} ns", start.elapsed_ns(&end)?);
/// assert!(end.is_complete()?);
/// # Ok::<(), longshore::Error>(())
/// ```
#[derive(Clone)]
pub struct Event {
    shared: Arc<Shared>,
}

/// Dropping it destroys the plugin's event.
struct Shared {
    core: Arc<EventCore>,
    device: Device,
    /// The number of the queue that it is recorded on.
    queue: u64,
    /// A failure of that queue that the host has met, and told the queue's user nothing of, before
    /// the event was recorded.
    failure: Option<Error>,
}

impl Event {
    /// Makes an event for the queue of this number. `failure` is one of that queue that its user was not told.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; those of the driver.
    pub(crate) fn create(
        device: &Device,
        timing: bool,
        queue: u64,
        failure: Option<Error>,
    ) -> Result<Event> {
        let core = device.core().event(timing)?;
        let device = device.clone();
        Ok(Event { shared: Arc::new(Shared { core, device, queue, failure }) })
    }

    /// Returns whether it is recorded on the queue of this number.
    pub(crate) fn is_of_queue(&self, queue: u64) -> bool {
        self.shared.queue == queue
    }

    /// Returns the device that it was made on.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Returns whether it was reached, also if work in front of it failed. LLVM:
    /// `OL_EVENT_INFO_IS_COMPLETE`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; those of the driver.
    pub fn is_complete(&self) -> Result<bool> {
        self.with(AnyEvent::is_complete)
    }

    /// Blocks until it is reached. LLVM: `olSyncEvent`.
    ///
    /// # Errors
    /// The first failure of the work in front of it, see [`Event`]; those of
    /// [`Event::is_complete`]. `Unsupported` in a host function of the event's own queue, if it is
    /// recorded behind that function, which would wait for itself.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_own_queue()?;
        self.with(AnyEvent::synchronize)?;
        self.shared.failure.clone().map_or(Ok(()), Err)
    }

    /// Blocks until it is reached, for as long as `limit` at most; false if the time is up, which
    /// cancels nothing. Asks now and then, and runs no work of a queue on the calling thread.
    ///
    /// # Errors
    /// As for [`Event::synchronize`], but that in a host function of its own queue the time is up.
    pub fn synchronize_for(&self, limit: Duration) -> Result<bool> {
        let complete = self.with(|event| polling::poll(limit, || event.is_complete()))?;
        if complete {
            self.synchronize()?;
        }
        Ok(complete)
    }

    /// Nanoseconds from this event to `end`, negative if `end` was reached first. LLVM:
    /// `olGetEventElapsedTime`, in milliseconds there.
    ///
    /// # Errors
    /// `InvalidArgument` if one was recorded without timing, `InvalidDevice` if they are of two
    /// devices, `InvalidEvent` if one is not complete.
    pub fn elapsed_ns(&self, end: &Event) -> Result<i64> {
        if self.device().id() != end.device().id() {
            let message = format!(
                "the start is of device {}, the end of {}",
                self.device().name(),
                end.device().name()
            );
            return Err(Error::new(ErrorCode::InvalidDevice, message));
        }
        self.with(|start| end.with(|end| start.elapsed_ns(end)))
    }

    /// # Errors
    /// `Unsupported` where the calling thread runs a function that the event is recorded behind.
    fn refuse_own_queue(&self) -> Result<()> {
        if !host_function::is_inside_queue(self.shared.queue) || self.is_complete()? {
            return Ok(());
        }
        Err(Error::would_deadlock("waiting for an event", "its own queue, in front of the event,"))
    }

    pub(crate) fn with<R>(&self, body: impl FnOnce(&AnyEvent) -> Result<R>) -> Result<R> {
        let event = self.shared.core.enter(0).ok_or_else(|| self.device().closed())?;
        body(&event)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Closing the device waits for this; once it has begun, it destroys the event.
        if let Ok(_open) = self.device.remote() {
            drop(self.core.take());
        }
    }
}
