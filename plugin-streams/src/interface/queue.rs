//! Queues, as the interface of plugins has them.

use super::Complete;
use crate::device::StreamDevice;
use crate::event::StreamEvent;
use crate::kernel::StreamKernel;
use crate::queue::StreamQueue;
use crate::step::{KeptLaunch, Step};
use crate::transfer::{self, Copy, Fill};
use longshore_plugin_api::{
    Arguments, CopyRequest, HostFunction, LaunchShape, PrefetchTarget, Queue, Result, Span,
};

impl<B: Complete> Queue<B> for StreamQueue<B> {
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
        // Before the launch: another thread may learn of its fault.
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
