//! The device operations of one construct, in order, and the work that follows them.

use crate::device::OmpDevice;
use crate::gpu::rpc::Serving;
use crate::mapping::end::{self, EndedMapping};
use crate::memory::Memory;
use crate::ompt;
use longshore::{DevicePointer, Queue, Result};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

/// The operations of one construct. On a device whose memory the host reaches, operations run
/// during their call; on other devices they are queued. LLVM: `AsyncInfoTy`.
pub(crate) struct Stream {
    pub(crate) device: &'static OmpDevice,
    queue: Option<Arc<Queue>>,
    /// Whether the queue has work that nothing has waited for.
    is_pending: bool,
    /// The sequel of the operations; `None` for an empty sequel.
    sequel: Option<Box<Sequel>>,
}

/// Values that must outlive a stream's operations, and the work that follows them.
#[derive(Default)]
struct Sequel {
    /// Values that queued copies read.
    staged: Vec<Box<[u8]>>,
    after: Vec<After>,
}

/// Work that follows the completion of a construct's operations.
pub(crate) enum After {
    /// Mapped ranges to remove.
    End(Vec<EndedMapping>),
    /// Memory of private arguments.
    Free(Vec<Memory>),
    /// A launch whose kernel may call the host.
    Serve(Serving),
}

/// A part of a copied range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset in the range.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

thread_local! {
    /// Idle queues of the thread, by the device's number.
    static QUEUES: RefCell<Vec<Option<Arc<Queue>>>> = const { RefCell::new(Vec::new()) };
}

impl Stream {
    /// Creates an empty stream.
    #[inline]
    pub(crate) fn new(device: &'static OmpDevice) -> Stream {
        Stream { device, queue: None, is_pending: false, sequel: None }
    }

    /// Returns the queue of the stream. The first call takes one that the thread has used before.
    ///
    /// # Errors
    /// Errors of [`longshore::Device::queue`].
    #[inline]
    pub(crate) fn queue(&mut self) -> Result<&Queue> {
        if self.queue.is_none() {
            let number = self.device.number;
            let take = |queues: &RefCell<Vec<Option<Arc<Queue>>>>| {
                queues.borrow_mut().get_mut(number).and_then(Option::take)
            };
            let idle = QUEUES.try_with(take).ok().flatten();
            self.queue = Some(match idle {
                Some(queue) => queue,
                None => self.device.new_queue()?,
            });
        }
        Ok(self.queue.as_ref().expect("the queue was just set"))
    }

    /// Returns the queue for work that the stream must wait for.
    ///
    /// # Errors
    /// As for [`Stream::queue`].
    pub(crate) fn queue_to_submit(&mut self) -> Result<&Queue> {
        self.is_pending = true;
        self.queue()
    }

    /// Copies `bytes` bytes to the device.
    ///
    /// # Errors
    /// Errors of the copy.
    ///
    /// # Safety
    /// Both ranges are valid, and `from` stays unchanged until the stream is done.
    #[inline]
    pub(crate) unsafe fn submit(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.submit_parts(to, from, bytes, &[Part { offset: 0, bytes }]) }
    }

    /// Copies parts of a range to the device. Tools see one copy of the whole range.
    ///
    /// # Errors
    /// Errors of the copies.
    ///
    /// # Safety
    /// As for [`Stream::submit`]; the parts are inside the range.
    pub(crate) unsafe fn submit_parts(
        &mut self,
        to: u64,
        from: u64,
        bytes: u64,
        parts: &[Part],
    ) -> Result<()> {
        let _scope = ompt::transfer_to_device(self.device.number, to, from, bytes);
        for Part { offset, bytes } in parts {
            let (to, from) = (to + offset, (from + offset) as *const c_void);
            if self.device.is_reachable {
                // SAFETY: promised by the caller; the host reaches the device's memory.
                unsafe { std::ptr::copy(from.cast::<u8>(), to as *mut u8, *bytes as usize) };
                continue;
            }
            // SAFETY: promised by the caller.
            unsafe { self.queue_to_submit()?.copy_from_host(DevicePointer(to), from, *bytes)? };
        }
        Ok(())
    }

    /// Copies parts of a range to the host. Tools see one copy of the whole range.
    ///
    /// # Errors
    /// Errors of the copies.
    ///
    /// # Safety
    /// As for [`Stream::retrieve`]; the parts are inside the range.
    pub(crate) unsafe fn retrieve_parts(
        &mut self,
        to: u64,
        from: u64,
        bytes: u64,
        parts: &[Part],
    ) -> Result<()> {
        let _scope = ompt::transfer_to_host(self.device.number, to, from, bytes);
        for Part { offset, bytes } in parts {
            let (to, from) = ((to + offset) as *mut c_void, from + offset);
            if self.device.is_reachable {
                // SAFETY: promised by the caller; the host reaches the device's memory.
                unsafe { std::ptr::copy(from as *const u8, to.cast::<u8>(), *bytes as usize) };
                continue;
            }
            // SAFETY: promised by the caller.
            unsafe { self.queue_to_submit()?.copy_to_host(to, DevicePointer(from), *bytes)? };
        }
        Ok(())
    }

    /// Lets the queue wait for the work that all other queues of the device have now.
    ///
    /// # Errors
    /// Errors of the queues.
    pub(crate) fn wait_for_others(&mut self) -> Result<()> {
        self.queue()?;
        let own = self.queue.as_ref().expect("the queue was just taken");
        for other in self.device.queues().iter().filter(|other| !Arc::ptr_eq(other, own)) {
            own.wait_for(&other.record()?)?;
        }
        Ok(())
    }

    /// Copies a value to the device.
    ///
    /// # Errors
    /// Errors of the copy.
    ///
    /// # Safety
    /// The range on the device is valid.
    #[inline]
    pub(crate) unsafe fn submit_value(&mut self, to: u64, value: &[u8]) -> Result<()> {
        let bytes = value.len() as u64;
        if self.device.is_reachable {
            // SAFETY: promised by the caller.
            return unsafe { self.submit(to, value.as_ptr() as u64, bytes) };
        }
        let staged: Box<[u8]> = value.into();
        let from = staged.as_ptr() as u64;
        self.sequel.get_or_insert_default().staged.push(staged);
        // SAFETY: promised by the caller; the staged value lives as long as the stream.
        unsafe { self.submit(to, from, bytes) }
    }

    /// Copies `bytes` bytes to the host.
    ///
    /// # Errors
    /// Errors of the copy.
    ///
    /// # Safety
    /// Both ranges are valid, and `to` is not used otherwise until the stream is done.
    #[inline]
    pub(crate) unsafe fn retrieve(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.retrieve_parts(to, from, bytes, &[Part { offset: 0, bytes }]) }
    }

    /// Adds work that runs once all operations are done.
    pub(crate) fn after(&mut self, after: After) {
        self.sequel.get_or_insert_default().after.push(after);
    }

    /// Returns whether all operations are done. Does not block.
    ///
    /// # Errors
    /// Errors of the queue.
    pub(crate) fn is_done(&self) -> Result<bool> {
        match &self.queue {
            Some(queue) if self.is_pending => queue.is_idle(),
            _ => Ok(true),
        }
    }

    /// Waits for all operations, then does the work that follows them. Blocks.
    ///
    /// # Errors
    /// The first error of the operations.
    #[inline]
    pub(crate) fn synchronize(&mut self) -> Result<()> {
        if !self.is_pending && self.sequel.is_none() {
            return Ok(());
        }
        self.wait_and_finish()
    }

    #[inline(never)]
    fn wait_and_finish(&mut self) -> Result<()> {
        let mut result = Ok(());
        if std::mem::take(&mut self.is_pending)
            && let Some(queue) = &self.queue
        {
            result = queue.synchronize();
        }
        if let Some(sequel) = self.sequel.take() {
            sequel.after.into_iter().for_each(|after| finish(self.device, after));
        }
        result
    }
}

/// Does the work that follows a construct's operations.
fn finish(device: &OmpDevice, after: After) {
    match after {
        After::End(ended) => end::finish(&device.table, device.number, ended),
        After::Serve(serving) => drop(serving),
        After::Free(memory) => {
            let mut locked = device.table.lock();
            for memory in memory {
                let _scope = ompt::deletion(device.number, memory.address());
                locked.pool.free(memory);
            }
        }
    }
}

impl Drop for Stream {
    /// Waits for operations that are still queued, and keeps the queue for the thread.
    #[inline]
    fn drop(&mut self) {
        self.synchronize().unwrap_or_else(|error| log::error!("{error}"));
        if let Some(queue) = self.queue.take() {
            keep(self.device.number, queue);
        }
    }
}

/// Keeps a queue for the thread's next construct. An ending thread drops the queue.
#[inline]
fn keep(number: usize, queue: Arc<Queue>) {
    let keep = |queues: &RefCell<Vec<Option<Arc<Queue>>>>| {
        let mut queues = queues.borrow_mut();
        if queues.len() <= number {
            queues.resize_with(number + 1, || None);
        }
        queues[number] = Some(queue);
    };
    let _ = QUEUES.try_with(keep);
}
