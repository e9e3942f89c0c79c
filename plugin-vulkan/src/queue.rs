//! Queues: what may be queued, and how it is done.

use crate::batch::Dispatch;
use crate::device_core::DeviceCore;
use crate::line::{HostWork, Line};
use crate::transfer::{self, CopyJob, End};
use crate::{VulkanBackend, VulkanDevice, VulkanEvent, VulkanKernel};
use longshore_plugin_api::{
    Arguments, CopyRequest, HostFunction, LaunchShape, Place, PrefetchTarget, Queue, Result, Span,
};
use std::sync::Arc;

/// Bytes of the program that are captured when a copy is queued; more is copied later.
const CAPTURED_BYTES: u64 = 64 << 10;

/// An in-order queue. A thread of the process's queues, named `longshore-vk<number>`, does what nobody
/// waits for; a queue has one while it has something to do, and none while it waits for another queue.
/// [`Queue::synchronize`] may do what is pending, host functions too, on the calling thread. A host
/// function may use its own queue, but what waits for that is `Unsupported`.
///
/// The first launch of a kernel with a size that a pipeline must be built for blocks until the driver
/// has compiled it. Overlapping copies copy as if through a buffer. Dropping the queue does not wait.
///
/// LLVM: `ol_queue_handle_t`.
pub struct VulkanQueue {
    line: Arc<Line>,
}

impl VulkanQueue {
    pub(crate) fn new(device: &Arc<DeviceCore>) -> Result<VulkanQueue> {
        Ok(VulkanQueue { line: Line::new(device)? })
    }

    fn device(&self) -> &Arc<DeviceCore> {
        self.line.device()
    }

    /// What a place of a copy is.
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

    /// A copy that nobody waits for.
    fn queue_copy(&self, copy: CopyJob) -> Result<()> {
        let bytes = copy.bytes;
        match (&copy.to, &copy.from) {
            (End::Device(to), End::Device(from)) => {
                self.line.record(false, |batch| batch.copy(to, from, bytes))
            }
            (End::Device(_), End::Host(from))
                if bytes <= CAPTURED_BYTES && !self.device().memory.knows_some(*from, bytes) =>
            {
                // SAFETY: whoever queued the copy vouches for the source; what could still write
                // to it is work of the host, and if there is such, it is not read now: the device
                // reaches none of it.
                let source =
                    unsafe { std::slice::from_raw_parts(*from as *const u8, bytes as usize) };
                let End::Device(to) = &copy.to else { return Ok(()) };
                let to = to.clone();
                self.line.record_unless_host_work(
                    |batch| batch.upload(&to, source),
                    || HostWork::Copy(copy),
                )
            }
            _ => self.line.push(HostWork::Copy(copy)),
        }
    }
}

impl Drop for VulkanQueue {
    fn drop(&mut self) {
        self.line.close();
    }
}

impl Queue<VulkanBackend> for VulkanQueue {
    /// Blocks the first time that a pipeline has to be built, see [`VulkanQueue`].
    fn launch(
        &self,
        kernel: &VulkanKernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        let kernel = kernel.on(self.device())?;
        let pipeline = kernel.pipeline_for(shape, arguments)?;
        let launch = Dispatch { kernel: kernel.core(), pipeline, groups: shape.groups };
        self.line.record(shape.wait, |batch| batch.launch(&launch, arguments))
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
                self.line.record(true, |batch| batch.copy(to, from, bytes))
            }
            _ => self.line.exclusively(|| job.run()),
        }
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        let (address, bytes) = (destination.address(), destination.bytes());
        if bytes == 0 {
            return if wait { self.synchronize() } else { Ok(()) };
        }
        let to = transfer::find(self.device(), address, bytes)?;
        match to.host().filter(|_| wait && !self.device().always_stage) {
            Some(host) => self.line.exclusively(|| {
                // SAFETY: the range is mapped, and all that was queued is done.
                unsafe { transfer::fill(host, pattern, bytes) };
                Ok(())
            }),
            None => self.line.record(wait, |batch| batch.fill(&to, pattern, bytes)),
        }
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.line.push(HostWork::Function(function))
    }

    fn wait_event(&self, event: &VulkanEvent) -> Result<()> {
        match event.place() {
            Some(place) => self.line.wait_for(place),
            None => self.device().refuse_if_lost(),
        }
    }

    fn record_event(&self, event: &VulkanEvent) -> Result<()> {
        event.record_at(&self.line)
    }

    fn is_idle(&self) -> Result<bool> {
        self.line.is_idle()
    }

    fn synchronize(&self) -> Result<()> {
        self.line.synchronize()
    }

    /// Memory stays where it is: there is nothing to do.
    fn prefetch(&self, _range: Span, _target: PrefetchTarget) -> Result<()> {
        Ok(())
    }
}
