//! Typed memory of a device.

use super::allocation::{Allocation, DevicePointer};
use crate::device::Device;
use crate::queue::Queue;
use bytemuck::{AnyBitPattern, NoUninit};
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result};
use std::marker::PhantomData;

/// A type whose values can lie in a [`Buffer`]: plain data, valid for any bytes.
pub trait Element: NoUninit + AnyBitPattern + Send + Sync {}

impl<T: NoUninit + AnyBitPattern + Send + Sync> Element for T {}

/// `len` values of `T` in a device's memory, freed on drop.
///
/// Its own methods copy synchronously and are safe. To copy in a queue's order without waiting,
/// see [`Queue::copy_from_host`].
pub struct Buffer<T: Element> {
    allocation: Allocation,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    #[track_caller]
    pub(crate) fn new(device: &Device, kind: MemoryKind, len: usize) -> Result<Buffer<T>> {
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64).ok_or_else(|| {
            let message = format!("{len} elements of {} bytes overflow", size_of::<T>());
            Error::new(ErrorCode::InvalidSize, message)
        })?;
        let allocation = device.allocate(kind, bytes, align_of::<T>() as u64)?;
        Ok(Buffer { allocation, len, elements: PhantomData })
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: there are no empty buffers.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first element.
    pub fn pointer(&self) -> DevicePointer {
        self.allocation.pointer()
    }

    /// The memory itself.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Copies `values` to the start of the buffer, after all that is in `queue`. Blocks until it
    /// is done.
    ///
    /// # Errors
    /// `InvalidSize` if there are more values than elements; those of
    /// [`Queue::synchronize`].
    pub fn write(&self, queue: &Queue, values: &[T]) -> Result<()> {
        self.fits(values.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        queue.write_and_wait(&self.allocation, bytes)
    }

    /// Copies the start of the buffer to `values`, after all that is in `queue`. Blocks until it
    /// is done.
    ///
    /// # Errors
    /// As for [`Buffer::write`].
    pub fn read(&self, queue: &Queue, values: &mut [T]) -> Result<()> {
        self.fits(values.len())?;
        let bytes = size_of_val(values);
        // SAFETY: any bytes are a `T`; the slice is borrowed exclusively until the copy is done.
        let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), bytes) };
        queue.read_and_wait(&self.allocation, bytes)
    }

    /// The whole content, after all that is in `queue`. Blocks until it is read.
    ///
    /// # Errors
    /// As for [`Buffer::write`].
    pub fn to_vec(&self, queue: &Queue) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); self.len];
        self.read(queue, &mut values)?;
        Ok(values)
    }

    /// Sets every element to `value`, after all that is in `queue`. Blocks until it is done.
    ///
    /// # Errors
    /// Those of [`Queue::synchronize`].
    pub fn fill(&self, queue: &Queue, value: T) -> Result<()> {
        queue.fill_and_wait(&self.allocation, bytemuck::bytes_of(&value))
    }

    fn fits(&self, values: usize) -> Result<()> {
        if values <= self.len {
            return Ok(());
        }
        let message = format!("{values} values for a buffer of {} elements", self.len);
        Err(Error::new(ErrorCode::InvalidSize, message))
    }
}
