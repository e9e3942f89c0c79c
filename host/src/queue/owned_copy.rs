//! Copies that own memory of the program, and do not block.

use super::Queue;
use super::core::QueueCore;
use crate::device::Device;
use crate::event::{Event, EventFuture};
use crate::memory::{BufferSlice, Element, element};
use longshore_plugin_api::{ErrorCode, Result};
use std::future::{Future, IntoFuture};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A queued copy between a buffer and a vector, which the copy owns until it is done. Made by
/// [`Queue::read_owned`] and [`Queue::write_owned`]. [`OwnedCopy::wait`] and `.await` return the
/// vector.
///
/// Dropping the copy does not wait: the queue frees the vector behind the copy. Forgetting it leaks
/// the vector.
#[must_use = "the vector comes back by `wait` or `await`"]
pub struct OwnedCopy<T: Element> {
    memory: Option<Memory<T>>,
    event: Event,
}

/// The wait for an [`OwnedCopy`], made by `.await`.
#[must_use = "a future waits only while it is awaited"]
pub struct OwnedCopyFuture<T: Element> {
    memory: Option<Memory<T>>,
    future: EventFuture,
}

/// A vector that a queued copy uses. When dropped, the queue frees the vector behind the copy.
struct Memory<T: Element> {
    values: Parts<T>,
    core: Arc<QueueCore>,
    device: Device,
}

/// The parts of a vector. No reference to the elements exists while a copy accesses them.
struct Parts<T> {
    start: *mut T,
    len: usize,
    capacity: usize,
}

impl<T> Clone for Parts<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Parts<T> {}

// SAFETY: the parts own the elements, which are `Send`.
unsafe impl<T: Element> Send for Parts<T> {}
// SAFETY: a shared reference gives no access to the elements.
unsafe impl<T: Element> Sync for Parts<T> {}

impl Queue {
    /// Queues a copy of all elements of a buffer or slice to a new vector. Does not wait for the
    /// copy, unless the buffer's zeros are queued on another queue.
    ///
    /// ```
    /// # let host = longshore::Host::new()?;
    /// # if host.devices().is_empty() { return Ok(()) }
    /// # let device = host.default_device()?;
    /// # let queue = device.queue()?;
    /// let buffer = device.buffer::<u32>(&queue, 4)?;
    /// let written = queue.write_owned(&buffer, vec![1, 2, 3, 4])?;
    /// let read = queue.read_owned(buffer.slice(1..)?)?;
    ///
    /// assert_eq!(read.wait()?, [2, 3, 4]);
    /// assert_eq!(pollster::block_on(async { written.await })?, [1, 2, 3, 4]);
    /// # Ok::<(), longshore::Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of [`Queue::copy_to_host`] and [`Queue::record`].
    pub fn read_owned<'a, T: Element>(
        &self,
        from: impl Into<BufferSlice<'a, T>>,
    ) -> Result<OwnedCopy<T>> {
        let from = from.into();
        from.buffer().order_zeros(self)?;
        let values = vec![element::zero::<T>(); from.len()];
        self.own(values, |to, bytes| self.queue_read(from.pointer(), from.device(), to, bytes))
    }

    /// Queues a copy of `values` to the start of a buffer or slice. Does not wait, as for
    /// [`Queue::read_owned`], which has an example.
    ///
    /// # Errors
    /// `InvalidSize` if there are more values than elements; errors of [`Queue::copy_from_host`]
    /// and [`Queue::record`].
    pub fn write_owned<'a, T: Element>(
        &self,
        to: impl Into<BufferSlice<'a, T>>,
        values: Vec<T>,
    ) -> Result<OwnedCopy<T>> {
        let to = to.into();
        to.fits(values.len())?;
        to.buffer().order_zeros(self)?;
        self.own(values, |from, bytes| self.queue_write(to.pointer(), to.device(), from, bytes))
    }

    /// Queues a copy that uses the elements of `values`, and an event behind it. `queue_copy` gets
    /// their address and their size in bytes.
    fn own<T: Element>(
        &self,
        values: Vec<T>,
        queue_copy: impl FnOnce(u64, u64) -> Result<()>,
    ) -> Result<OwnedCopy<T>> {
        // Freed behind the queue's work even if the copy, or the event behind it, fails.
        let memory = Memory::new(values, self);
        let Parts { start, len, .. } = memory.values;
        queue_copy(start.expose_provenance() as u64, (len * size_of::<T>()) as u64)?;
        let event = self.record()?;
        Ok(OwnedCopy { memory: Some(memory), event })
    }
}

impl<T: Element> OwnedCopy<T> {
    /// Returns the event behind the copy.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Blocks until the copy is done, and returns the vector.
    ///
    /// # Errors
    /// As for [`Event::synchronize`].
    pub fn wait(mut self) -> Result<Vec<T>> {
        self.event.synchronize()?;
        let memory = self.memory.take().expect("only `wait` and `into_future` take the memory");
        // SAFETY: the copy is done.
        Ok(unsafe { memory.into_values() })
    }
}

impl<T: Element> IntoFuture for OwnedCopy<T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = OwnedCopyFuture<T>;

    fn into_future(mut self) -> OwnedCopyFuture<T> {
        let future = (&self.event).into_future();
        OwnedCopyFuture { memory: self.memory.take(), future }
    }
}

impl<T: Element> Future for OwnedCopyFuture<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Vec<T>>> {
        let Poll::Ready(result) = Pin::new(&mut self.future).poll(context) else {
            return Poll::Pending;
        };
        result?;
        let memory = self.memory.take().expect("a future is not polled after its completion");
        // SAFETY: the copy is done.
        Poll::Ready(Ok(unsafe { memory.into_values() }))
    }
}

impl<T: Element> Memory<T> {
    fn new(values: Vec<T>, queue: &Queue) -> Memory<T> {
        let mut values = ManuallyDrop::new(values);
        let (start, len, capacity) = (values.as_mut_ptr(), values.len(), values.capacity());
        let (core, device) = (Arc::clone(queue.core()), queue.device().clone());
        Memory { values: Parts { start, len, capacity }, core, device }
    }

    /// Returns the vector.
    ///
    /// # Safety
    /// No queued copy uses the elements.
    unsafe fn into_values(self) -> Vec<T> {
        let mut kept = ManuallyDrop::new(self);
        // SAFETY: `kept` is not dropped, so each handle is dropped once.
        unsafe {
            std::ptr::drop_in_place(&raw mut kept.core);
            std::ptr::drop_in_place(&raw mut kept.device);
        }
        // SAFETY: promised by the caller.
        unsafe { kept.values.into_vec() }
    }
}

impl<T> Parts<T> {
    /// Returns the vector.
    ///
    /// # Safety
    /// The parts were not made a vector before, and nothing else uses the elements.
    unsafe fn into_vec(self) -> Vec<T> {
        // SAFETY: `Memory::new` took the parts from a vector; the rest is promised by the caller.
        unsafe { Vec::from_raw_parts(self.start, self.len, self.capacity) }
    }
}

impl<T: Element> Drop for Memory<T> {
    fn drop(&mut self) {
        let values = self.values;
        let free = move || {
            let values = values;
            // SAFETY: the queue runs this function once, behind the copy.
            drop(unsafe { values.into_vec() });
        };
        if self.core.call_behind_work(self.device.id(), free).is_ok() {
            return;
        }
        // The device was closed, or its driver failed.
        match self.core.finish() {
            Err(error) if error.code() == ErrorCode::Unsupported => {
                log::error!("memory of a copy is leaked: {error}");
            }
            // SAFETY: the function was not queued, and all work is done, also if some failed.
            _ => drop(unsafe { values.into_vec() }),
        }
    }
}
