//! Events.

mod future;

use crate::backend::AnyEvent;
use crate::device::Device;
use crate::device::events::EventCore;
use crate::host_function;
use crate::polling;
use longshore_plugin_api::{Error, ErrorCode, Event as _, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use future::EventFuture;

/// A point in a queue's order, recorded by [`Queue::record`](crate::Queue::record). An event may
/// outlive its queue. Cloning is cheap. Any thread may call the methods. LLVM: `ol_event_handle_t`.
///
/// Waiting for an event reports failures as waiting for its queue does. The reported failure is the
/// first one among the work in front of the event that no
/// [`Queue::synchronize`](crate::Queue::synchronize) had reported when the event was reached. Each
/// wait for the event returns that failure, and the queue keeps the failure pending for its own
/// next synchronization. A queue that [waits](crate::Queue::wait_for) for the event inherits the
/// failure.
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

/// The state that all clones share. Dropping it destroys the plugin's event.
struct Shared {
    core: Arc<EventCore>,
    device: Device,
    /// The number of the queue that the event is recorded on.
    queue: u64,
    /// A number that grows with the order of records on the queue.
    place: u64,
    /// The queue's pending error at the time of recording.
    failure: Option<Error>,
}

impl Event {
    /// Creates an event for the queue of this number. `failure` is the queue's pending error.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub(crate) fn create(
        device: &Device,
        timing: bool,
        queue: u64,
        failure: Option<Error>,
    ) -> Result<Event> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let place = NEXT.fetch_add(1, Ordering::Relaxed);
        let core = device.core().event(timing)?;
        let device = device.clone();
        Ok(Event { shared: Arc::new(Shared { core, device, queue, place, failure }) })
    }

    /// Returns whether the event is recorded on the queue of this number.
    pub(crate) fn is_of_queue(&self, queue: u64) -> bool {
        self.shared.queue == queue
    }

    /// Returns the device of the event's queue.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Returns whether the event was reached, also if work in front of the event failed. Does not
    /// block. LLVM: `OL_EVENT_INFO_IS_COMPLETE`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub fn is_complete(&self) -> Result<bool> {
        self.with(AnyEvent::is_complete)
    }

    /// Blocks until the event is reached. LLVM: `olSyncEvent`.
    ///
    /// # Errors
    /// The first failure of the work in front of the event, see [`Event`]; the errors of
    /// [`Event::is_complete`]. `Unsupported` in a host function of the event's own queue, if the
    /// event is recorded behind that function: the function would wait for itself.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_own_queue()?;
        self.with(AnyEvent::synchronize)?;
        self.shared.failure.clone().map_or(Ok(()), Err)
    }

    /// Blocks until the event is reached, but not longer than `limit`. Returns false after the
    /// limit; the work goes on. The calling thread polls, sleeping up to 1 ms in between, and runs
    /// no work of a queue.
    ///
    /// # Errors
    /// As for [`Event::synchronize`], except that a call in a host function of the event's own
    /// queue returns false after the limit.
    pub fn synchronize_for(&self, limit: Duration) -> Result<bool> {
        let complete = self.with(|event| polling::poll(limit, || event.is_complete()))?;
        if complete {
            self.synchronize()?;
        }
        Ok(complete)
    }

    /// Returns the time from this event to `end` in nanoseconds, negative if `end` was reached
    /// first. Does not block. LLVM: `olGetEventElapsedTime`, which returns milliseconds.
    ///
    /// # Errors
    /// `InvalidArgument` if one of the events was recorded without timing, `InvalidDevice` if the
    /// events belong to different devices, `InvalidEvent` if one of the events is not complete.
    pub fn elapsed_ns(&self, end: &Event) -> Result<i64> {
        if self.device().id() != end.device().id() {
            let message = format!(
                "the start event belongs to {}, the end event to {}",
                self.device().name(),
                end.device().name()
            );
            return Err(Error::new(ErrorCode::InvalidDevice, message));
        }
        self.with(|start| end.with(|end| start.elapsed_ns(end)))
    }

    /// Refuses a wait for the event in a host function in front of it.
    ///
    /// # Errors
    /// `Unsupported` if the calling thread runs such a function.
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
        // Closing the device waits for this guard. A close that has begun destroys the event
        // itself.
        if let Ok(_open) = self.device.remote() {
            drop(self.core.take());
        }
    }
}
