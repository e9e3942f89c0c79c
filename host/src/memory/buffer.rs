//! Typed memory of a device.

use super::allocation::{Allocation, DevicePointer};
use super::element::Element;
use crate::device::Device;
use crate::queue::Queue;
use crate::queue::core::QueueCore;
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A number of values of type `T` in a device's memory, freed on drop as an [`Allocation`] is. Any
/// thread may call the methods.
///
/// The methods of a buffer block until their copy is done. [`Queue::scope`] and
/// [`Queue::read_owned`] copy in a queue's order without blocking.
///
/// ```
/// # let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// # let device = host.default_device()?;
/// # let queue = device.queue()?;
/// let buffer = device.buffer_of(&queue, &[1.0f32, 2.0, 3.0])?;
/// buffer.write(&queue, &[10.0, 20.0])?;
/// assert_eq!(buffer.to_vec(&queue)?, [10.0, 20.0, 3.0]);
///
/// buffer.fill(&queue, 0.5)?;
/// let mut first = [0.0; 1];
/// buffer.read(&queue, &mut first)?;
/// assert_eq!(first, [0.5]);
/// # Ok::<(), longshore::Error>(())
/// ```
pub struct Buffer<T: Element> {
    allocation: Allocation,
    len: usize,
    zeroing: Option<Zeroing>,
    elements: PhantomData<T>,
}

/// A queued fill of a buffer with zeros.
struct Zeroing {
    queue: Arc<QueueCore>,
    /// Whether the fill is known to be done.
    is_done: AtomicBool,
}

impl<T: Element> Buffer<T> {
    /// Allocates a buffer and queues a fill with zeros.
    #[track_caller]
    pub(crate) fn zeroed(queue: &Queue, device: &Device, len: usize) -> Result<Buffer<T>> {
        // The fill comes behind all work of the queue, and uses by other queues come behind the
        // fill.
        let mut buffer = Buffer::new(device, Some(queue), len)?;
        queue.fill_with_zeros(&buffer.allocation)?;
        let queue = Arc::clone(queue.core());
        buffer.zeroing = Some(Zeroing { queue, is_done: AtomicBool::new(false) });
        Ok(buffer)
    }

    #[track_caller]
    pub(crate) fn new(device: &Device, queue: Option<&Queue>, len: usize) -> Result<Buffer<T>> {
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64).ok_or_else(|| {
            let message = format!(
                "a buffer of {len} elements of {} bytes; expected at most 2^64 - 1 bytes",
                size_of::<T>()
            );
            Error::new(ErrorCode::InvalidSize, message)
        })?;
        let alignment = align_of::<T>() as u64;
        let allocation = device.allocate_for(MemoryKind::Device, bytes, alignment, queue)?;
        Ok(Buffer { allocation, len, zeroing: None, elements: PhantomData })
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns false: every buffer has at least one element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first element.
    #[inline]
    pub fn pointer(&self) -> DevicePointer {
        self.allocation.pointer()
    }

    /// Returns the allocation that holds the elements.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Copies `values` to the start of the buffer, after all queued work of `queue`. Blocks until
    /// the copy is done.
    ///
    /// # Errors
    /// `InvalidSize` if there are more values than elements; errors of [`Queue::synchronize`].
    #[inline]
    pub fn write(&self, queue: &Queue, values: &[T]) -> Result<()> {
        self.as_slice().write(queue, values)
    }

    /// Copies the start of the buffer to `values`, after all queued work of `queue`. Blocks until
    /// the copy is done.
    ///
    /// # Errors
    /// As for [`Buffer::write`].
    #[inline]
    pub fn read(&self, queue: &Queue, values: &mut [T]) -> Result<()> {
        self.as_slice().read(queue, values)
    }

    /// Returns a copy of all elements, read after all queued work of `queue`. Blocks until the copy
    /// is done.
    ///
    /// # Errors
    /// As for [`Buffer::write`].
    pub fn to_vec(&self, queue: &Queue) -> Result<Vec<T>> {
        self.as_slice().to_vec(queue)
    }

    /// Sets every element to `value`, after all queued work of `queue`. Blocks until the fill is
    /// done.
    ///
    /// # Errors
    /// `InvalidDevice` if the queue belongs to another device; errors of [`Queue::synchronize`].
    pub fn fill(&self, queue: &Queue, value: T) -> Result<()> {
        self.as_slice().fill(queue, value)
    }

    /// Puts later work of `queue` behind the fill with zeros. Waits for a fill on another queue.
    ///
    /// # Errors
    /// Errors of the work in front of the fill.
    pub(crate) fn order_zeros(&self, queue: &Queue) -> Result<()> {
        if let Some(zeros) = &self.zeroing
            && !zeros.is_done.load(Ordering::Acquire)
            && !Arc::ptr_eq(&zeros.queue, queue.core())
        {
            zeros.queue.wait_for_all()?;
            zeros.is_done.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Calls `act`, which waits for `queue`, behind the fill with zeros. A fill on another queue is
    /// waited for first.
    ///
    /// # Errors
    /// Errors of `act` and of the work in front of the fill.
    pub(crate) fn behind_zeros(
        &self,
        queue: &Queue,
        act: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let pending = self.zeroing.as_ref().filter(|zeros| !zeros.is_done.load(Ordering::Acquire));
        let Some(zeros) = pending else { return act() };
        if !Arc::ptr_eq(&zeros.queue, queue.core()) {
            zeros.queue.wait_for_all()?;
        }
        act()?;
        zeros.is_done.store(true, Ordering::Release);
        Ok(())
    }
}
