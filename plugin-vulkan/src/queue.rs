//! Queues: the checks of commands, and their execution.

use crate::batch::Dispatch;
use crate::device_core::DeviceCore;
use crate::rect::{RectJob, Rows};
use crate::submission_queue::{HostWork, SubmissionQueue};
use crate::transfer::{self, CopyJob, End};
use crate::{VulkanBackend, VulkanDevice, VulkanEvent, VulkanKernel};
use longshore_plugin_api::{
    Arguments, CopyRequest, Error, ErrorCode, HostFunction, LaunchShape, Place, PrefetchTarget,
    Queue, RectRequest, Result, Span,
};
use std::sync::Arc;

/// Most bytes of the program that a queued copy captures; more bytes are copied later.
const CAPTURED_BYTES: u64 = 64 << 10;

/// An in-order queue. If no caller waits, a thread of the worker pool, named
/// `longshore-vk<number>`, processes the work. A queue occupies a thread while it has work, and
/// none while it waits for another queue. [`Queue::synchronize`] may run pending work, including
/// host functions, on the calling thread. A host function may use its own queue, but a call that
/// waits for that queue is `Unsupported`.
///
/// The first launch of a kernel with a new size blocks until the driver has compiled its pipeline.
/// Overlapping ranges copy as if through a buffer. Dropping the queue does not wait.
///
/// LLVM: `ol_queue_handle_t`.
pub struct VulkanQueue {
    submissions: Arc<SubmissionQueue>,
}

impl VulkanQueue {
    pub(crate) fn new(device: &Arc<DeviceCore>) -> Result<VulkanQueue> {
        Ok(VulkanQueue { submissions: SubmissionQueue::new(device)? })
    }

    fn device(&self) -> &Arc<DeviceCore> {
        self.submissions.device()
    }

    /// Returns the end of a copy for a place and its range.
    fn end(&self, place: &Place<'_, VulkanDevice>, span: Span) -> Result<End> {
        let (address, bytes) = (span.address(), span.bytes());
        match place {
            Place::Host => {
                let known = self.device().memory.find_host(address);
                let known = known.filter(|found| found.rest() >= bytes);
                Ok(known.map_or(End::Host(address), End::Device))
            }
            Place::Device(device) => {
                let found = transfer::find(device.core(), address, bytes)?;
                Ok(match Arc::ptr_eq(device.core(), self.device()) {
                    true => End::Device(found),
                    false => End::Other(Arc::clone(device.core()), found),
                })
            }
        }
    }

    /// Queues a copy without waiting for it.
    fn queue_copy(&self, copy: CopyJob) -> Result<()> {
        let bytes = copy.bytes;
        match (&copy.to, &copy.from) {
            (End::Device(to), End::Device(from)) => {
                self.submissions.record(false, |batch| batch.copy(to, from, bytes))
            }
            (End::Device(_), End::Host(from))
                if bytes <= CAPTURED_BYTES && !self.device().memory.knows_some(*from, bytes) =>
            {
                // SAFETY: the caller vouches for the source. The device cannot access the source,
                // so only host work could still write to it. With such work queued, the source is
                // not read now.
                let source =
                    unsafe { std::slice::from_raw_parts(*from as *const u8, bytes as usize) };
                let End::Device(to) = &copy.to else { return Ok(()) };
                let to = to.clone();
                self.submissions.record_unless_host_work(
                    |batch| batch.upload(&to, source),
                    || HostWork::Copy(copy),
                )
            }
            _ => self.submissions.push(HostWork::Copy(copy)),
        }
    }
}

impl Drop for VulkanQueue {
    fn drop(&mut self) {
        self.submissions.close();
    }
}

impl Queue<VulkanBackend> for VulkanQueue {
    /// Launches a kernel. Blocks while a new pipeline is built, see [`VulkanQueue`].
    fn launch(
        &self,
        kernel: &VulkanKernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        let kernel = kernel.on(self.device())?;
        let pipeline = kernel.pipeline_for(shape, arguments)?;
        let launch = Dispatch { kernel: kernel.core(), pipeline, groups: shape.groups };
        self.submissions.record(shape.wait, |batch| batch.launch(&launch, arguments))
    }

    fn copy(&self, copy: &CopyRequest<'_, VulkanDevice>) -> Result<()> {
        let (to, from, bytes) = (copy.destination, copy.source, copy.destination.bytes());
        if bytes == 0 {
            return if copy.wait { self.synchronize() } else { Ok(()) };
        }
        let job = CopyJob {
            device: Arc::clone(self.device()),
            to: self.end(&copy.destination_place, to)?,
            from: self.end(&copy.source_place, from)?,
            bytes,
        };
        if !copy.wait {
            return self.queue_copy(job);
        }
        match (&job.to, &job.from) {
            (End::Device(to), End::Device(from)) if !job.is_direct() => {
                self.submissions.record(true, |batch| batch.copy(to, from, bytes))
            }
            _ => self.submissions.exclusively(|| job.run()),
        }
    }

    /// Copies by one command of the driver, or by a host thread. Rows between the program's memory
    /// and memory that the host does not reach go one by one.
    fn copy_rect(&self, rect: &RectRequest<'_, VulkanDevice>) -> Result<()> {
        let (to, from, extent) = (rect.destination, rect.source, rect.extent);
        let rows = Rows { extent, to: to.pitch(), from: from.pitch() };
        let ends = CopyJob {
            device: Arc::clone(self.device()),
            to: self.end(&rect.destination_place, to.span(&extent))?,
            from: self.end(&rect.source_place, from.span(&extent))?,
            bytes: extent.row_bytes,
        };
        if let (End::Device(to), End::Device(from)) = (&ends.to, &ends.from) {
            return self.submissions.record(false, |batch| rows.record(batch, to, from));
        }
        match RectJob::new(ends, rows) {
            Ok(job) => self.submissions.push(HostWork::Rect(job)),
            Err(_) => {
                let what = "rectangles in memory that only the device reaches";
                Err(Error::new(ErrorCode::Unsupported, what))
            }
        }
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        let (address, bytes) = (destination.address(), destination.bytes());
        if bytes == 0 {
            return if wait { self.synchronize() } else { Ok(()) };
        }
        let to = transfer::find(self.device(), address, bytes)?;
        match to.host().filter(|_| wait && !self.device().always_stage) {
            Some(host) => self.submissions.exclusively(|| {
                // SAFETY: the range is mapped, and all queued work is done.
                unsafe { transfer::fill(host, pattern, bytes) };
                Ok(())
            }),
            None => self.submissions.record(wait, |batch| batch.fill(&to, pattern, bytes)),
        }
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.submissions.push(HostWork::Function(function))
    }

    fn wait_event(&self, event: &VulkanEvent) -> Result<()> {
        match event.place() {
            Some(place) => self.submissions.wait_for(place),
            None => self.device().refuse_if_lost(),
        }
    }

    fn record_event(&self, event: &VulkanEvent) -> Result<()> {
        event.record_at(&self.submissions)
    }

    fn is_idle(&self) -> Result<bool> {
        self.submissions.is_idle()
    }

    fn synchronize(&self) -> Result<()> {
        self.submissions.synchronize()
    }

    /// Does nothing: memory stays in place.
    fn prefetch(&self, _range: Span, _target: PrefetchTarget) -> Result<()> {
        Ok(())
    }
}
