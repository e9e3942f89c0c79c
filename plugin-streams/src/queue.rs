//! Queues: what may be queued, and how it is done.

use crate::backend::StreamBackend;
use crate::device::StreamDevice;
use crate::device_core::DeviceCore;
use crate::line::Line;
use crate::step::Step;
use crate::transfer::{Copy, End, Fill};
use longshore_plugin_api::{Place, Result, Span};
use std::sync::Arc;

/// An in-order queue: a stream of the driver that does not wait for the process's default one. While it has work that
/// only the host can do, and does not wait for an event that the driver lacks, it has a thread, of a few that all queues
/// share. A host function finds the queue's device current; it may use the driver and its own queue, but what waits for
/// that is `InvalidQueue`.
///
/// Queueing blocks while the driver's own list of launches is full. Dropping the queue does not wait.
///
/// LLVM: `ol_queue_handle_t`.
pub struct StreamQueue<B: StreamBackend> {
    pub(crate) line: Arc<Line<B::Driver>>,
}

impl<B: StreamBackend> StreamQueue<B> {
    pub(crate) fn new(device: &Arc<DeviceCore<B::Driver>>) -> Result<StreamQueue<B>> {
        Ok(StreamQueue { line: Line::new(device)? })
    }

    pub(crate) fn device(&self) -> &Arc<DeviceCore<B::Driver>> {
        self.line.device()
    }

    /// What a place of a copy is.
    pub(crate) fn end(&self, place: &Place<'_, StreamDevice<B>>, span: Span) -> End<B::Driver> {
        match place {
            Place::Host => End::Host(span.address()),
            Place::Device(device) if Arc::ptr_eq(device.core(), self.device()) => {
                End::Own(span.address())
            }
            Place::Device(device) => End::Other(Arc::clone(device.core()), span.address()),
        }
    }

    /// A copy that nobody waits for.
    pub(crate) fn queue_copy(&self, copy: Copy<B::Driver>) -> Result<()> {
        if let Some(keeping) = self.line.keeping() {
            keeping.push(Step::Copy(copy));
            return Ok(());
        }
        let current = self.device().enter()?;
        if copy.hand(&self.line)? {
            return Ok(());
        }
        drop(current);
        self.line.keep(Step::BlockingCopy(copy))
    }

    /// A fill that nobody waits for.
    pub(crate) fn queue_fill(&self, fill: Fill) -> Result<()> {
        let current = self.device().enter()?;
        if fill.hand(&self.line)? {
            return Ok(());
        }
        drop(current);
        self.line.keep(Step::Fill(fill))
    }

    pub(crate) fn wait_if(&self, wait: bool) -> Result<()> {
        if wait { self.line.synchronize() } else { Ok(()) }
    }
}
