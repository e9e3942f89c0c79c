//! Allocation, pinning and reporting of a device's memory: methods of [`Device`].

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
    /// Allocates `bytes` bytes of memory at a multiple of `alignment` bytes, from the cache of
    /// freed blocks if possible. Blocks in the driver, and on queued work if the device is short of
    /// memory. LLVM: `olMemAllocAligned`.
    ///
    /// # Errors
    /// `InvalidSize` for 0 bytes, `InvalidArgument` for an alignment that is no power of two,
    /// `OutOfResources` if the device has not enough memory. `Unsupported` for a kind that the
    /// device lacks, `Uninitialized` if the device was closed; errors of the driver.
    #[track_caller]
    pub fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<Allocation> {
        self.allocate_for(kind, bytes, alignment, None)
    }

    /// Allocates memory. With a queue, the caller promises that the first use comes behind all
    /// queued work of that queue, and uses by other queues behind that first use.
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

    /// Creates a buffer of `len` elements in device memory and queues a fill with zeros. Later work
    /// of `queue` and all methods of the buffer see the zeros. A kernel of another queue sees them
    /// only if that queue waits for an event that `queue` recorded after this call. Does not wait
    /// for the queue.
    ///
    /// # Errors
    /// As for [`Device::allocate`]; `InvalidDevice` if the queue belongs to another device; errors
    /// of the driver.
    #[track_caller]
    pub fn buffer<T: Element>(&self, queue: &Queue, len: usize) -> Result<Buffer<T>> {
        Buffer::zeroed(queue, self, len)
    }

    /// Creates a buffer of `len` elements in device memory with undefined contents, which can
    /// come from freed memory. Blocks as [`Device::allocate`] does.
    ///
    /// # Errors
    /// As for [`Device::allocate`].
    ///
    /// # Safety
    /// An element is read, by a kernel, [`Buffer::read`] or [`Buffer::to_vec`], only after it was
    /// written.
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

    /// Creates a buffer in device memory with a copy of `values`, made after all queued work of
    /// `queue`. Blocks until the copy is done.
    ///
    /// # Errors
    /// As for [`Device::allocate`] and [`Buffer::write`].
    #[track_caller]
    pub fn buffer_of<T: Element>(&self, queue: &Queue, values: &[T]) -> Result<Buffer<T>> {
        // The copy comes behind all work of the queue, and is done before the buffer is returned.
        let buffer = Buffer::new(self, Some(queue), values.len())?;
        buffer.write(queue, values)?;
        Ok(buffer)
    }

    /// Returns the size in bytes of the freed memory that is kept for reuse.
    pub fn cached_bytes(&self) -> u64 {
        self.core.cached().1
    }

    /// Returns a report of the device's allocations and of the freed memory kept for reuse. Without
    /// tracking the report covers live allocations only. Works on a closed device, too.
    pub fn memory_report(&self) -> MemoryReport {
        self.core.collect_freed();
        self.core.memory.report(&self.name())
    }

    /// Returns the memory that is kept for reuse to the driver. May block in the driver, but does
    /// not wait for queued work.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub fn trim(&self) -> Result<()> {
        self.core.memory.trim(&**self.remote()?);
        Ok(())
    }

    /// Page-locks `bytes` bytes of host memory and returns the device's address of that memory. May
    /// block. LLVM: `olMemRegister`.
    ///
    /// # Errors
    /// `InvalidSize` for 0 bytes, `InvalidArgument` if part of the memory is pinned already,
    /// `Unsupported` if the plugin cannot pin memory, `Uninitialized` if the device was closed;
    /// errors of the driver.
    ///
    /// # Safety
    /// The memory stays mapped until [`Device::unpin`].
    pub unsafe fn pin(&self, address: *mut c_void, bytes: u64) -> Result<DevicePointer> {
        if bytes == 0 {
            return Err(Error::new(ErrorCode::InvalidSize, "0 bytes to pin; expected at least 1"));
        }
        // SAFETY: promised by the caller.
        let range = unsafe { Span::new(address as u64, bytes) };
        self.remote()?.pin(range).map(DevicePointer)
    }

    /// Unpins host memory that [`Device::pin`] has pinned; `address` is the host address. May
    /// block. LLVM: `olMemUnregister`.
    ///
    /// # Errors
    /// `InvalidArgument` if no memory is pinned at this address, `Uninitialized` if the device was
    /// closed; errors of the driver.
    ///
    /// # Safety
    /// No queued work uses the memory through the device's address any more.
    pub unsafe fn unpin(&self, address: *mut c_void) -> Result<()> {
        self.remote()?.unpin(address as u64)
    }
}

impl Device {
    /// Waits for the queued work that uses freed memory, and returns all freed memory to the
    /// plugin.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub(crate) fn reclaim(&self) -> Result<()> {
        self.core.memory.reclaim(&**self.remote()?);
        Ok(())
    }

    /// Ends the use of a block. Returns false if the block was not live.
    ///
    /// # Errors
    /// Errors of the driver, if the block is not kept for reuse; the block is gone even then.
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

    /// Returns points behind the queued work of every busy queue that can use memory of this
    /// device. These are the queues of this device and of its platform's other devices; for host
    /// and managed memory all queues of the host.
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

    /// Reports the new logical size of a cached block to the plugin.
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
