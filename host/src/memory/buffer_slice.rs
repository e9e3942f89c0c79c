//! Parts of buffers, without copies.

use super::allocation::DevicePointer;
use super::buffer::Buffer;
use super::element::{self, Element};
use crate::device::Device;
use crate::queue::Queue;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::ops::{Bound, RangeBounds};

/// A part of a [`Buffer`], made by [`Buffer::slice`] without a copy: an argument of a kernel, and
/// an end of copies and fills. The part borrows its buffer. Copying the value is cheap.
///
/// As an argument, a slice passes the address of its first element. A kernel also reaches the
/// elements of the buffer outside the slice. A Vulkan device requires an offset, in bytes, that is
/// a multiple of its `minStorageBufferOffsetAlignment`: every multiple of 256 is one.
///
/// ```
/// # let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// # let device = host.default_device()?;
/// # let queue = device.queue()?;
/// let buffer = device.buffer_of(&queue, &[1.0f32, 2.0, 3.0, 4.0])?;
/// let (left, right) = buffer.as_slice().split_at(2)?;
/// right.copy_from(&queue, left)?;
/// left.fill(&queue, 0.5)?;
/// buffer.slice(1..=2)?.write(&queue, &[7.0])?;
///
/// assert_eq!(right.to_vec(&queue)?, [1.0, 2.0]);
/// assert_eq!(buffer.to_vec(&queue)?, [0.5, 7.0, 1.0, 2.0]);
/// # Ok::<(), longshore::Error>(())
/// ```
pub struct BufferSlice<'a, T: Element> {
    buffer: &'a Buffer<T>,
    start: usize,
    len: usize,
}

impl<T: Element> Clone for BufferSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for BufferSlice<'_, T> {}

impl<T: Element> Buffer<T> {
    /// Returns all elements as a slice.
    #[inline]
    pub fn as_slice(&self) -> BufferSlice<'_, T> {
        BufferSlice { buffer: self, start: 0, len: self.len() }
    }

    /// Returns the elements of a range, which may be empty.
    ///
    /// # Errors
    /// `InvalidSize` if the range exceeds the buffer, `InvalidArgument` if it ends before its
    /// start.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<BufferSlice<'_, T>> {
        self.as_slice().slice(range)
    }
}

impl<'a, T: Element> From<&'a Buffer<T>> for BufferSlice<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: Element> BufferSlice<'a, T> {
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the slice has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the buffer that the slice is a part of.
    pub fn buffer(&self) -> &'a Buffer<T> {
        self.buffer
    }

    /// Returns the device that the buffer belongs to.
    #[inline]
    pub fn device(&self) -> &'a Device {
        self.buffer.allocation().device()
    }

    /// Returns the address of the first element.
    #[inline]
    pub fn pointer(&self) -> DevicePointer {
        self.buffer.pointer().offset((self.start * size_of::<T>()) as i64)
    }

    /// Returns the elements of a range within this slice.
    ///
    /// # Errors
    /// `InvalidSize` if the range exceeds the slice, `InvalidArgument` if it ends before its start.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<BufferSlice<'a, T>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        if end > self.len || start > self.len {
            return Err(self.beyond(start, end));
        }
        if start > end {
            let message = format!(
                "a slice from element {start} to element {end} of {} elements; expected a start \
                 that is not behind the end",
                self.len
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        Ok(BufferSlice { buffer: self.buffer, start: self.start + start, len: end - start })
    }

    /// Returns the elements before `middle`, and the elements from `middle` on.
    ///
    /// # Errors
    /// `InvalidSize` if the slice has fewer than `middle` elements.
    pub fn split_at(&self, middle: usize) -> Result<(BufferSlice<'a, T>, BufferSlice<'a, T>)> {
        Ok((self.slice(..middle)?, self.slice(middle..)?))
    }

    /// Copies `values` to the start of the slice, after all queued work of `queue`. Blocks until
    /// the copy is done.
    ///
    /// # Errors
    /// `InvalidSize` if there are more values than elements; errors of [`Queue::synchronize`].
    pub fn write(&self, queue: &Queue, values: &[T]) -> Result<()> {
        self.fits(values.len())?;
        let bytes = element::bytes(values);
        self.buffer.behind_zeros(queue, || queue.write_to(self.pointer(), self.device(), bytes))
    }

    /// Copies the start of the slice to `values`, after all queued work of `queue`. Blocks until
    /// the copy is done.
    ///
    /// # Errors
    /// As for [`BufferSlice::write`].
    pub fn read(&self, queue: &Queue, values: &mut [T]) -> Result<()> {
        self.fits(values.len())?;
        let bytes = element::bytes_mut(values);
        self.buffer.behind_zeros(queue, || queue.read_from(self.pointer(), self.device(), bytes))
    }

    /// Returns a copy of all elements, read after all queued work of `queue`. Blocks until the copy
    /// is done.
    ///
    /// # Errors
    /// As for [`BufferSlice::write`].
    pub fn to_vec(&self, queue: &Queue) -> Result<Vec<T>> {
        let mut values = vec![element::zero::<T>(); self.len];
        self.read(queue, &mut values)?;
        Ok(values)
    }

    /// Sets every element to `value`, after all queued work of `queue`. Blocks until the fill is
    /// done.
    ///
    /// # Errors
    /// `InvalidDevice` if the queue belongs to another device; errors of [`Queue::synchronize`].
    pub fn fill(&self, queue: &Queue, value: T) -> Result<()> {
        let pattern = element::bytes(std::slice::from_ref(&value));
        self.buffer.behind_zeros(queue, || {
            queue.fill_and_wait(self.pointer(), self.device(), pattern, self.bytes())
        })
    }

    /// Copies all elements of `source`, which has the same length, to this slice after all queued
    /// work of `queue`. The slices may belong to two devices. Blocks until the copy is done.
    ///
    /// # Errors
    /// `InvalidSize` for slices of different lengths, `InvalidArgument` for slices that overlap;
    /// errors of [`Queue::copy`] and [`Queue::synchronize`].
    pub fn copy_from(&self, queue: &Queue, source: BufferSlice<'_, T>) -> Result<()> {
        self.check_source(&source)?;
        self.buffer.behind_zeros(queue, || {
            source.buffer.behind_zeros(queue, || {
                let (to, from) = (self.place(), source.place());
                queue.copy_between(to, from, self.bytes(), true)
            })
        })
    }
}

impl<T: Element> BufferSlice<'_, T> {
    /// Returns the size in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    /// Returns the address and the device.
    #[inline]
    pub(crate) fn place(&self) -> (DevicePointer, &Device) {
        (self.pointer(), self.device())
    }

    /// Checks that all elements of `source` can be copied here.
    ///
    /// # Errors
    /// `InvalidSize` for slices of different lengths, `InvalidArgument` for slices that overlap.
    fn check_source(&self, source: &BufferSlice<'_, T>) -> Result<()> {
        if source.len != self.len {
            let message = format!(
                "a copy of {} elements to a slice of {}; expected slices of the same length: take \
                 a part of the longer one by `slice`",
                source.len, self.len
            );
            return Err(Error::new(ErrorCode::InvalidSize, message));
        }
        if self.shares_elements(source) {
            let message = format!(
                "a copy of the elements {}..{} of a buffer to its elements {}..{}; expected slices \
                 that do not overlap: copy through a second buffer",
                source.start,
                source.start + source.len,
                self.start,
                self.start + self.len
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        Ok(())
    }

    /// Returns whether some elements belong to both slices.
    pub(super) fn shares_elements(&self, other: &BufferSlice<'_, T>) -> bool {
        let overlap = other.start < self.start + self.len && self.start < other.start + other.len;
        let are_empty = self.len == 0 || other.len == 0;
        std::ptr::eq(self.buffer, other.buffer) && overlap && !are_empty
    }

    /// # Errors
    /// `InvalidSize` for more values than elements.
    pub(crate) fn fits(&self, values: usize) -> Result<()> {
        if values <= self.len {
            return Ok(());
        }
        let is_whole = self.len == self.buffer.len();
        let what = if is_whole { "buffer" } else { "slice" };
        let message = format!("{values} values for a {what} of {} elements", self.len);
        Err(Error::new(ErrorCode::InvalidSize, message))
    }

    #[cold]
    fn beyond(&self, start: usize, end: usize) -> Error {
        let message = format!(
            "a slice from element {start} to element {end} of {len} elements; expected a range \
             within 0..{len}",
            len = self.len
        );
        Error::new(ErrorCode::InvalidSize, message)
    }
}
