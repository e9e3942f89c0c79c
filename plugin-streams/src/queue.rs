//! Queues: what may be queued, and how it is done.

use crate::backend::StreamBackend;
use crate::device::DeviceCore;
use crate::line::Line;
use crate::step::{KeptLaunch, Step};
use crate::transfer::{self, Copy, End, Fill};
use crate::{StreamDevice, StreamEvent, StreamKernel};
use longshore_plugin_api::{
    Arguments, CopyRequest, HostFunction, LaunchShape, Place, PrefetchTarget, Queue, Result, Span,
};
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
    line: Arc<Line<B::Driver>>,
}

impl<B: StreamBackend> StreamQueue<B> {
    pub(crate) fn new(device: &Arc<DeviceCore<B::Driver>>) -> Result<StreamQueue<B>> {
        Ok(StreamQueue { line: Line::new(device)? })
    }

    fn device(&self) -> &Arc<DeviceCore<B::Driver>> {
        self.line.device()
    }

    /// What a place of a copy is.
    fn end(&self, place: &Place<'_, StreamDevice<B>>, span: Span) -> End<B::Driver> {
        match place {
            Place::Host => End::Host(span.address()),
            Place::Device(device) if Arc::ptr_eq(device.core(), self.device()) => {
                End::Own(span.address())
            }
            Place::Device(device) => End::Other(Arc::clone(device.core()), span.address()),
        }
    }

    /// A copy that nobody waits for.
    fn queue_copy(&self, copy: Copy<B::Driver>) -> Result<()> {
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
    fn queue_fill(&self, fill: Fill) -> Result<()> {
        let current = self.device().enter()?;
        if fill.hand(&self.line)? {
            return Ok(());
        }
        drop(current);
        self.line.keep(Step::Fill(fill))
    }

    fn wait_if(&self, wait: bool) -> Result<()> {
        if wait { self.line.synchronize() } else { Ok(()) }
    }
}

impl<B: StreamBackend> Queue<B> for StreamQueue<B> {
    /// Larger clusters than 8 groups are asked of the driver, which may refuse them.
    #[inline]
    fn launch(
        &self,
        kernel: &StreamKernel<B::Driver>,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        let kernel = kernel.on(self.device())?;
        if let Some(cluster) = shape.cluster {
            kernel.check_cluster(shape, cluster)?;
        }
        kernel.check(shape, arguments)?;
        if shape.wait {
            self.line.refuse_runner()?;
        }
        if let Some(keeping) = self.line.keeping() {
            keeping.push(Step::Launch(KeptLaunch::new(kernel, shape, arguments)));
            return self.wait_if(shape.wait);
        }
        let current = self.device().enter()?;
        // Before the launch: who learns of its fault may be another thread.
        self.line.in_flight().note(kernel.number());
        // SAFETY: shape and arguments were checked, and whoever made the arguments vouches for what
        // the kernel does with them; the stream is live.
        let launched = unsafe { kernel.launch(shape, arguments.pointers(), self.line.stream()) };
        self.line.in_flight().was_handed();
        launched.map_err(|failure| kernel.refused(shape, failure))?;
        drop(current);
        self.wait_if(shape.wait)
    }

    fn copy(&self, copy: &CopyRequest<'_, StreamDevice<B>>) -> Result<()> {
        let (to, from, bytes) = (copy.destination, copy.source, copy.destination.bytes());
        if bytes == 0 {
            return self.wait_if(copy.wait);
        }
        let job = Copy {
            to: self.end(&copy.destination_place, to),
            from: self.end(&copy.source_place, from),
            bytes,
        };
        if !copy.wait {
            return self.queue_copy(job);
        }
        self.line.refuse_runner()?;
        match self.line.keeping() {
            Some(keeping) => keeping.push(Step::Copy(job)),
            None => job.submit(&self.line)?,
        }
        self.line.synchronize()
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        let bytes = destination.bytes();
        if wait {
            self.line.refuse_runner()?;
        }
        if bytes > 0 {
            let fill = Fill::new(destination, pattern);
            match self.line.keeping() {
                Some(keeping) => keeping.push(Step::Fill(fill)),
                None if wait => fill.submit(&self.line)?,
                None => self.queue_fill(fill)?,
            }
        }
        self.wait_if(wait)
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.line.keep(Step::Function(function))
    }

    fn wait_event(&self, event: &StreamEvent<B::Driver>) -> Result<()> {
        let Some(record) = event.last() else { return self.device().refuse_if_lost() };
        if let Some(keeping) = self.line.keeping() {
            keeping.push(Step::Wait(record));
            return Ok(());
        }
        match record.is_submitted() {
            true => record.hold_up(&self.line),
            false => self.line.await_record(record),
        }
    }

    fn record_event(&self, event: &StreamEvent<B::Driver>) -> Result<()> {
        event.record_at(&self.line)
    }

    fn is_idle(&self) -> Result<bool> {
        self.line.is_idle()
    }

    fn synchronize(&self) -> Result<()> {
        self.line.synchronize()
    }

    /// Managed memory moves, if the device can do that while both use it.
    fn prefetch(&self, range: Span, target: PrefetchTarget) -> Result<()> {
        match self.line.keeping() {
            Some(keeping) => {
                keeping.push(Step::Prefetch(range, target));
                Ok(())
            }
            None => transfer::prefetch(&self.line, range, target),
        }
    }
}
