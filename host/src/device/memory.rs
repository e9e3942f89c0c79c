//! The memory of an open device, for its handles.

use super::Device;
use crate::memory::{
    Allocation, Block, Buffer, DevicePointer, Element, MemoryReport, Released, Request, Use,
};
use crate::queue::Queue;
use crate::queue::core::{Point, QueueCore};
use longshore_plugin_api::{Device as _, Error, ErrorCode, MemoryKind, Result, Span};
use std::ffi::c_void;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Device {
    /// Allocates memory, from the cache of freed blocks if it can. LLVM: `olMemAllocAligned`.
    ///
    /// # Errors
    /// `InvalidSize` for 0 bytes, `InvalidArgument` for an alignment that is no power of two,
    /// `OutOfResources` if there is not enough, `Unsupported` for a kind that the device lacks,
    /// `Uninitialized` if it was closed.
    #[track_caller]
    pub fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<Allocation> {
        self.allocate_for(kind, bytes, alignment, None)
    }

    /// Allocates memory. With a queue the first use comes behind all that the queue does now, and uses
    /// of other queues behind that first one.
    ///
    /// # Errors
    /// As for [`Device::allocate`].
    #[track_caller]
    pub(crate) fn allocate_for(
        &self,
        kind: MemoryKind,
        bytes: u64,
        alignment: u64,
        queue: Option<&Queue>,
    ) -> Result<Allocation> {
        let user = Use { bytes, location: Location::caller() };
        let request = Request::new(kind, alignment, user)?;
        let queue = queue.map(Queue::core);
        let block = match self.core.memory.reuse(&request, queue) {
            Some((block, false)) => block,
            Some((block, true)) => self.with_new_logical_size(block)?,
            None => self.obtain(&request, queue)?,
        };
        self.core.memory.track(&block);
        Ok(Allocation::new(block, self.clone()))
    }

    /// Makes a buffer of `len` elements in device memory, all bytes 0. The zeros are queued: they are
    /// there for what `queue` does from now on, and for all methods of the buffer. Other queues that
    /// launch kernels on it must wait for an event behind the zeros. Does not wait for the queue.
    ///
    /// # Errors
    /// As for [`Device::allocate`]; `InvalidDevice` if the queue belongs to another device; those of
    /// the driver.
    #[track_caller]
    pub fn buffer<T: Element>(&self, queue: &Queue, len: usize) -> Result<Buffer<T>> {
        Buffer::zeroed(queue, self, len)
    }

    /// Makes a buffer of `len` elements in device memory, of undefined content, which can be that of
    /// memory that was freed.
    ///
    /// # Errors
    /// As for [`Device::allocate`].
    ///
    /// # Safety
    /// An element is read, by [`Buffer::read`] and [`Buffer::to_vec`] too, only after it was written.
    ///
    /// ```compile_fail,E0133
    /// # fn read(device: &longshore::Device) -> longshore::Result<()> {
    /// let queue = device.queue()?;
    /// let old = device.buffer_uninit::<u8>(1024)?.to_vec(&queue)?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub unsafe fn buffer_uninit<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::new(self, None, len)
    }

    /// Returns a buffer in device memory with the content of `values`. Blocks until it is copied.
    ///
    /// # Errors
    /// As for [`Device::allocate`], and those of [`Buffer::write`].
    #[track_caller]
    pub fn buffer_of<T: Element>(&self, queue: &Queue, values: &[T]) -> Result<Buffer<T>> {
        // The copy comes behind all work of the queue, and is done before the buffer is handed out.
        let buffer = Buffer::new(self, Some(queue), values.len())?;
        buffer.write(queue, values)?;
        Ok(buffer)
    }

    /// Bytes of freed memory that are kept for reuse.
    pub fn cached_bytes(&self) -> u64 {
        self.core.cached().1
    }

    /// What is and was allocated on it, and what is kept for reuse. Works on a closed device, too.
    pub fn memory_report(&self) -> MemoryReport {
        self.core.collect_freed();
        self.core.memory.report(&self.name())
    }

    /// Gives the memory that is kept for reuse back to the driver. May block.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub fn trim(&self) -> Result<()> {
        self.core.memory.trim(&**self.remote()?);
        Ok(())
    }

    /// Page-locks host memory and answers the device's address for it. May block. LLVM:
    /// `olMemRegister`.
    ///
    /// # Errors
    /// `InvalidArgument` if part of it is pinned already, `Unsupported` if the plugin cannot.
    ///
    /// # Safety
    /// The memory stays mapped until [`Device::unpin`].
    pub unsafe fn pin(&self, address: *mut c_void, bytes: u64) -> Result<DevicePointer> {
        if bytes == 0 {
            return Err(Error::new(ErrorCode::InvalidSize, "0 bytes to pin; at least 1 is needed"));
        }
        // SAFETY: promised by the caller.
        let range = unsafe { Span::new(address as u64, bytes) };
        self.remote()?.pin(range).map(DevicePointer)
    }

    /// Undoes [`Device::pin`]. May block. LLVM: `olMemUnregister`.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing was pinned at this address.
    ///
    /// # Safety
    /// Nothing that is queued uses the memory through the device's address any more.
    pub unsafe fn unpin(&self, address: *mut c_void) -> Result<()> {
        self.remote()?.unpin(address as u64)
    }
}

impl Device {
    /// Gives back all memory that is freed, also what queued work still uses: waits for that.
    ///
    /// # Errors
    /// `Uninitialized` if it was closed.
    pub(crate) fn reclaim(&self) -> Result<()> {
        self.core.memory.reclaim(&**self.remote()?);
        Ok(())
    }

    /// Ends the use of a block; false if it was not live.
    ///
    /// # Errors
    /// Those of the driver, if the block is not kept for reuse; it is gone all the same.
    pub(crate) fn release(&self, block: Arc<Block>) -> Result<bool> {
        let memory = &self.core.memory;
        let released = memory.release(block, |kind| self.points(kind));
        if memory.has_pending() {
            self.core.collect_freed();
        }
        match released {
            Released::Done => return Ok(true),
            Released::NotLive => return Ok(false),
            Released::GiveBack(block) => {
                if let Some(remote) = self.core.remote.enter(0) {
                    memory.give_back(&block, &remote)?;
                }
            }
        }
        Ok(true)
    }

    /// Points behind the work of every queue that can use memory of this device and is not done: its
    /// own, those of its platform's other devices, and all of the host's for memory of the host.
    fn points(&self, kind: MemoryKind) -> Vec<Point> {
        let mut points = self.core.busy_points();
        let host = &self.core.host;
        if host.open_count.load(Ordering::Acquire) > 1 {
            let others = Device::all_open(host).filter(|other| other.id() != self.id());
            let reach = |other: &Device| kind != MemoryKind::Device || self.same_platform(other);
            points.extend(others.filter(reach).flat_map(|other| other.core.busy_points()));
        }
        points
    }

    #[cold]
    fn obtain(&self, request: &Request, queue: Option<&Arc<QueueCore>>) -> Result<Arc<Block>> {
        let (memory, remote) = (&self.core.memory, self.remote()?);
        if memory.has_pending()
            && memory.collect_freed(&remote)
            && let Some((block, changed)) = memory.reuse(request, queue)
        {
            return if changed { self.with_new_logical_size(block) } else { Ok(block) };
        }
        memory.obtain(request, &remote)
    }

    /// Tells the plugin the size of a block that comes from the cache.
    #[cold]
    fn with_new_logical_size(&self, block: Arc<Block>) -> Result<Arc<Block>> {
        let memory = &self.core.memory;
        let remote = self.remote()?;
        let reported = memory.report_logical_size(&block, &remote);
        reported.inspect_err(|_| {
            block.retire();
            memory.give_back(&block, &remote).unwrap_or_else(|error| log::error!("{error}"));
        })?;
        Ok(block)
    }
}
