//! Events.

use crate::device::Device;
use crate::gated::Gated;
use crate::polling;
use longshore_plugin_api::remote::RemoteEvent;
use longshore_plugin_api::{Error, ErrorCode, Event as _, Result};
use std::sync::Arc;
use std::time::Duration;

/// A point in a queue's order, made by [`Queue::record`](crate::Queue::record). It may outlive
/// its queue. Cloning is cheap. LLVM: `ol_event_handle_t`.
#[derive(Clone)]
pub struct Event {
    shared: Arc<Shared>,
}

pub(crate) type EventCore = Gated<RemoteEvent>;

/// Dropping it destroys the plugin's event.
struct Shared {
    core: Arc<EventCore>,
    device: Device,
}

impl Event {
    pub(crate) fn new(core: Arc<EventCore>, device: Device) -> Event {
        Event { shared: Arc::new(Shared { core, device }) }
    }

    /// The device that it was made on.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// Whether it was reached. LLVM: `OL_EVENT_INFO_IS_COMPLETE`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; those of the driver.
    pub fn is_complete(&self) -> Result<bool> {
        self.with(RemoteEvent::is_complete)
    }

    /// Blocks until it is reached. LLVM: `olSyncEvent`.
    ///
    /// # Errors
    /// As for [`Event::is_complete`].
    pub fn synchronize(&self) -> Result<()> {
        self.with(RemoteEvent::synchronize)
    }

    /// Blocks until it is reached, for as long as `limit` at most; false if the time is up, which
    /// cancels nothing. Asks now and then, and runs no work of a queue on the calling thread.
    ///
    /// # Errors
    /// As for [`Event::is_complete`].
    pub fn synchronize_for(&self, limit: Duration) -> Result<bool> {
        self.with(|event| {
            let complete = polling::poll(limit, || event.is_complete())?;
            if complete {
                event.synchronize()?;
            }
            Ok(complete)
        })
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

    pub(crate) fn with<R>(&self, body: impl FnOnce(&RemoteEvent) -> Result<R>) -> Result<R> {
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
