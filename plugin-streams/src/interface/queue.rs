//! Implementation of the plugin interface for queues.

use super::Complete;
use crate::command::{Command, DeferredLaunch};
use crate::device::StreamDevice;
use crate::driver::Driver as _;
use crate::event::StreamEvent;
use crate::kernel::StreamKernel;
use crate::queue::StreamQueue;
use crate::rect::Rect;
use crate::transfer::{self, Copy, Fill};
use longshore_plugin_api::{
    Arguments, CopyRequest, Error, ErrorCode, HostFunction, LaunchShape, PrefetchTarget, Queue,
    RectRequest, Result, Span,
};

impl<B: Complete> Queue<B> for StreamQueue<B> {
    /// Queues a launch. Clusters of more than 8 work-groups need the driver's permission, which it
    /// may refuse.
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
            self.submissions.refuse_runner()?;
        }
        if let Some(deferred) = self.submissions.deferred() {
            deferred.push(Command::Launch(DeferredLaunch::new(kernel, shape, arguments)));
            return self.wait_if(shape.wait);
        }
        let current = self.device().enter()?;
        // Noted before the launch: another thread may see the kernel's fault first.
        self.submissions.in_flight().note(kernel.number());
        // SAFETY: shape and arguments were checked, and the caller vouches for the kernel's use of
        // the arguments; the stream is live.
        let launched =
            unsafe { kernel.launch(shape, arguments.pointers(), self.submissions.stream()) };
        self.submissions.in_flight().was_handed();
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
        self.submissions.refuse_runner()?;
        match self.submissions.deferred() {
            Some(deferred) => deferred.push(Command::Copy(job)),
            None => job.submit(&self.submissions)?,
        }
        self.submissions.synchronize()
    }

    fn copy_rect(&self, rect: &RectRequest<'_, StreamDevice<B>>) -> Result<()> {
        let (to, from, extent) = (rect.destination, rect.source, rect.extent);
        let to_end = self.end(&rect.destination_place, to.span(&extent));
        let from_end = self.end(&rect.source_place, from.span(&extent));
        if !self.device().driver().has_rects() {
            return Err(Error::new(ErrorCode::Unsupported, "the driver copies no rectangles"));
        }
        let rect = Rect::new(self.device(), (to, &to_end), (from, &from_end), extent)?;
        if let Some(deferred) = self.submissions.deferred() {
            deferred.push(Command::Rect(rect));
            return Ok(());
        }
        let current = self.device().enter()?;
        if rect.hand(&self.submissions)? {
            return Ok(());
        }
        drop(current);
        self.submissions.keep(Command::BlockingRect(rect))
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        let bytes = destination.bytes();
        if wait {
            self.submissions.refuse_runner()?;
        }
        if bytes > 0 {
            let fill = Fill::new(destination, pattern);
            match self.submissions.deferred() {
                Some(deferred) => deferred.push(Command::Fill(fill)),
                None if wait => fill.submit(&self.submissions)?,
                None => self.queue_fill(fill)?,
            }
        }
        self.wait_if(wait)
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.submissions.keep(Command::Function(function))
    }

    fn wait_event(&self, event: &StreamEvent<B::Driver>) -> Result<()> {
        let Some(record) = event.last() else { return self.device().refuse_if_lost() };
        if let Some(deferred) = self.submissions.deferred() {
            deferred.push(Command::Wait(record));
            return Ok(());
        }
        match record.is_submitted() {
            true => record.hold_up(&self.submissions),
            false => self.submissions.await_record(record),
        }
    }

    fn record_event(&self, event: &StreamEvent<B::Driver>) -> Result<()> {
        event.record_at(&self.submissions)
    }

    fn is_idle(&self) -> Result<bool> {
        self.submissions.is_idle()
    }

    fn synchronize(&self) -> Result<()> {
        self.submissions.synchronize()
    }

    fn driver_stream(&self) -> Result<u64> {
        Ok(self.submissions.stream().address())
    }

    /// Moves managed memory, if the device can do that while host and device use it.
    fn prefetch(&self, range: Span, target: PrefetchTarget) -> Result<()> {
        match self.submissions.deferred() {
            Some(deferred) => {
                deferred.push(Command::Prefetch(range, target));
                Ok(())
            }
            None => transfer::prefetch(&self.submissions, range, target),
        }
    }
}
