//! Queues.

use crate::backend::StreamBackend;
use crate::command::Command;
use crate::device::StreamDevice;
use crate::device_core::DeviceCore;
use crate::submission_queue::SubmissionQueue;
use crate::transfer::{Copy, End, Fill};
use longshore_plugin_api::{Place, Result, Span};
use std::sync::Arc;

/// An in-order queue: a stream of the driver that does not wait for the process's default stream. A
/// queue occupies one of the worker pool's threads only while it has work for the host, and not
/// while it waits for an event that the driver lacks. The device is current in a host function. The
/// function may use the driver and its own queue, but a call that waits for the queue fails with
/// `Unsupported`.
///
/// Queueing blocks while the driver's own list of launches is full. Dropping the queue does not
/// wait.
///
/// LLVM: `ol_queue_handle_t`.
pub struct StreamQueue<B: StreamBackend> {
    pub(crate) submissions: Arc<SubmissionQueue<B::Driver>>,
}

impl<B: StreamBackend> StreamQueue<B> {
    pub(crate) fn new(device: &Arc<DeviceCore<B::Driver>>) -> Result<StreamQueue<B>> {
        Ok(StreamQueue { submissions: SubmissionQueue::new(device)? })
    }

    pub(crate) fn device(&self) -> &Arc<DeviceCore<B::Driver>> {
        self.submissions.device()
    }

    /// Returns the end of a copy for a place of the interface.
    pub(crate) fn end(&self, place: &Place<'_, StreamDevice<B>>, span: Span) -> End<B::Driver> {
        match place {
            Place::Host => End::Host(span.address()),
            Place::Device(device) if Arc::ptr_eq(device.core(), self.device()) => {
                End::Own(span.address())
            }
            Place::Device(device) => End::Other(Arc::clone(device.core()), span.address()),
        }
    }

    /// Queues a copy without waiting for it.
    pub(crate) fn queue_copy(&self, copy: Copy<B::Driver>) -> Result<()> {
        if let Some(deferred) = self.submissions.deferred() {
            deferred.push(Command::Copy(copy));
            return Ok(());
        }
        let current = self.device().enter()?;
        if copy.hand(&self.submissions)? {
            return Ok(());
        }
        drop(current);
        self.submissions.keep(Command::BlockingCopy(copy))
    }

    /// Queues a fill without waiting for it.
    pub(crate) fn queue_fill(&self, fill: Fill) -> Result<()> {
        let current = self.device().enter()?;
        if fill.hand(&self.submissions)? {
            return Ok(());
        }
        drop(current);
        self.submissions.keep(Command::Fill(fill))
    }

    pub(crate) fn wait_if(&self, wait: bool) -> Result<()> {
        if wait { self.submissions.synchronize() } else { Ok(()) }
    }
}
