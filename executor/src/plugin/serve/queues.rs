//! The execution of requests to queues.

use std::cell::RefCell;
use std::sync::Arc;

use longshore_plugin_api::{
    Backend, CopyRequest, Error, ErrorCode, PitchedSpan, Place, Queue as _, RectRequest, Result,
    Span,
};

use super::Server;
use super::functions::queue_function;
use super::launch::Values;
use super::objects::{Device, Queue};
use crate::plugin::channel::Channel;
use crate::plugin::protocol::{CALL, Callback, Copy, Id, Launch, Rect, encode};

thread_local! {
    static VALUES: RefCell<Values> = RefCell::default();
}

impl<B: Backend> Server<B> {
    pub(super) fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let (queue, kernel) = (self.queues.get(launch.queue)?, self.kernels.get(launch.kernel)?);
        let launched = VALUES.with_borrow_mut(|values| {
            values.with(launch.arguments, |arguments| {
                queue.queue.launch(&kernel.kernel, &launch.shape, arguments)
            })
        });
        if launch.shape.wait { queue.or_deferred(launched) } else { launched }
    }

    pub(super) fn copy(&self, copy: &Copy) -> Result<()> {
        let queue = self.queues.get(copy.queue)?;
        let device = |id: Option<Id>| id.map(|id| self.devices.get(id)).transpose();
        let (to, from) = (device(copy.to_device)?, device(copy.from_device)?);
        // SAFETY: the host guarantees the ranges, on behalf of the program.
        let request = unsafe {
            CopyRequest::new(
                Span::new(copy.to, copy.bytes),
                place(to.as_ref()),
                Span::new(copy.from, copy.bytes),
                place(from.as_ref()),
            )
            .with_wait(copy.wait)
        };
        let copied = queue.queue.copy(&request);
        if copy.wait { queue.or_deferred(copied) } else { copied }
    }

    pub(super) fn copy_rect(&self, rect: &Rect) -> Result<()> {
        let queue = self.queues.get(rect.queue)?;
        let device = |id: Option<Id>| id.map(|id| self.devices.get(id)).transpose();
        let (to, from) = (device(rect.to_device)?, device(rect.from_device)?);
        // SAFETY: the host guarantees the rows, on behalf of the program.
        let request = unsafe {
            RectRequest::new(
                PitchedSpan::new(rect.to, rect.to_pitch),
                place(to.as_ref()),
                PitchedSpan::new(rect.from, rect.from_pitch),
                place(from.as_ref()),
                rect.extent,
            )
        };
        queue.queue.copy_rect(&request)
    }

    pub(super) fn copy_in(
        &self,
        queue: Id,
        device: Id,
        address: u64,
        content: &[u8],
    ) -> Result<()> {
        let (queue, device) = (self.queues.get(queue)?, self.devices.get(device)?);
        let (from, bytes) = (content.as_ptr() as u64, content.len() as u64);
        // SAFETY: the host guarantees the device's range; `content` outlives the copy, because the
        // call waits for it.
        queue.or_deferred(unsafe { copy_in(&queue, &device.device, address, from, bytes, true) })
    }

    /// Queues a copy of a message's bytes to the device. Does not block.
    pub(super) fn copy_in_later(
        &self,
        queue: Id,
        device: Id,
        address: u64,
        content: &[u8],
    ) -> Result<()> {
        let (queue, device) = (self.queues.get(queue)?, self.devices.get(device)?);
        let (content, bytes) = (content.to_vec(), content.len() as u64);
        let from = content.as_ptr() as u64;
        // SAFETY: the host guarantees the device's range; the content is dropped after the copy.
        unsafe { copy_in(&queue, &device.device, address, from, bytes, false)? };
        queue_function::<B>(&queue.queue, move || drop(content)).inspect_err(|_| {
            // Without the function the content may still be read.
            let _ = queue.queue.synchronize();
        })
    }

    pub(super) fn copy_out(
        &self,
        queue: Id,
        device: Id,
        address: u64,
        bytes: u64,
    ) -> Result<Vec<u8>> {
        let (queue, device) = (self.queues.get(queue)?, self.devices.get(device)?);
        let mut content = buffer(bytes)?;
        let to = content.as_mut_ptr() as u64;
        // SAFETY: the host guarantees the device's range; the buffer outlives the copy, because the
        // call waits for it.
        queue.or_deferred(unsafe { copy_out(&queue, &device.device, address, to, bytes, true) })?;
        Ok(content)
    }

    pub(super) fn fill(
        &self,
        queue: Id,
        address: u64,
        bytes: u64,
        pattern: &[u8],
        wait: bool,
    ) -> Result<()> {
        let queue = self.queues.get(queue)?;
        // SAFETY: the host guarantees the range, on behalf of the program.
        let filled = queue.queue.fill(unsafe { Span::new(address, bytes) }, pattern, wait);
        if wait { queue.or_deferred(filled) } else { filled }
    }

    pub(super) fn host_function(
        &self,
        peer: &Arc<dyn Channel>,
        queue: Id,
        function: u64,
    ) -> Result<()> {
        let (queue, peer) = (self.queues.get(queue)?, Arc::clone(peer));
        queue_function::<B>(&queue.queue, move || {
            // If the host is gone, so is the function.
            let _ = peer.call(None, CALL, &encode(&Callback::Run { function }));
        })
    }
}

/// Queues a copy from memory of this process.
///
/// # Safety
/// The caller guarantees both ranges until the copy is done.
pub(super) unsafe fn copy_in<B: Backend>(
    queue: &Queue<B>,
    device: &B::Device,
    to: u64,
    from: u64,
    bytes: u64,
    wait: bool,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let (destination, source) = unsafe { (Span::new(to, bytes), Span::new(from, bytes)) };
    queue.queue.copy(
        &CopyRequest::new(destination, Place::Device(device), source, Place::Host).with_wait(wait),
    )
}

/// Queues a copy to memory of this process.
///
/// # Safety
/// The caller guarantees both ranges until the copy is done.
pub(super) unsafe fn copy_out<B: Backend>(
    queue: &Queue<B>,
    device: &B::Device,
    from: u64,
    to: u64,
    bytes: u64,
    wait: bool,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let (destination, source) = unsafe { (Span::new(to, bytes), Span::new(from, bytes)) };
    queue.queue.copy(
        &CopyRequest::new(destination, Place::Host, source, Place::Device(device)).with_wait(wait),
    )
}

/// Creates a buffer of `bytes` zeroes.
///
/// # Errors
/// `OutOfResources` if the memory cannot be allocated.
pub(super) fn buffer(bytes: u64) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    content.try_reserve_exact(size).map_err(|_| {
        Error::new(ErrorCode::OutOfResources, format!("no memory for a buffer of {bytes} bytes"))
    })?;
    content.resize(size, 0);
    Ok(content)
}

fn place<B: Backend>(device: Option<&Arc<Device<B>>>) -> Place<'_, B::Device> {
    device.map_or(Place::Host, |device| Place::Device(&device.device))
}
