//! Memory at both ends of copies, and the copies of both contenders.

use crate::Both;
use crate::raw::{DevicePtr, Handle, Raw};
use anyhow::{Result, ensure};
use longshore::{Allocation, Buffer, MemoryKind};
use std::hint::black_box;

/// Host memory of two kinds, which both contenders use, and device memory for each of them.
pub(crate) struct Ends<'a, D: Raw> {
    pub(crate) bytes: usize,
    /// Memory from `malloc`.
    pub(crate) pageable: Memory,
    /// Page-locked memory.
    pub(crate) pinned: Memory,
    both: &'a Both<D>,
    ours: Buffer<u8>,
    floor: DevicePtr,
    stream: Handle,
}

/// Host memory, used through its address alone, by one thread.
pub(crate) struct Memory {
    start: *mut u8,
    _owner: Owner,
}

/// The owner of host memory, which frees it.
enum Owner {
    Process { _bytes: Vec<u8> },
    Device { _allocation: Allocation },
}

impl<D: Raw> Ends<'_, D> {
    pub(crate) fn new(both: &Both<D>, bytes: usize) -> Result<Ends<'_, D>> {
        let device = &both.ours.device;
        let mut pageable = vec![0; bytes];
        let pinned = device.allocate(MemoryKind::Host, bytes as u64, 64)?;
        Ok(Ends {
            bytes,
            pageable: Memory {
                start: pageable.as_mut_ptr(),
                _owner: Owner::Process { _bytes: pageable },
            },
            pinned: Memory {
                start: pinned.pointer().address() as *mut u8,
                _owner: Owner::Device { _allocation: pinned },
            },
            both,
            ours: device.buffer(&device.queue()?, bytes)?,
            floor: both.plain.allocate(bytes)?,
            stream: both.plain.stream()?,
        })
    }

    /// Copies everything once.
    ///
    /// # Errors
    /// Bytes that differ after copies in both directions.
    pub(crate) fn check(&self) -> Result<()> {
        for memory in [&self.pageable, &self.pinned] {
            self.there_and_back(memory, || self.upload(memory), || self.download(memory))?;
            let (up, down) = (|| self.upload_plainly(memory), || self.download_plainly(memory));
            self.there_and_back(memory, up, down)?;
            let (up, down) = (|| self.upload_by_driver(memory), || self.download_by_driver(memory));
            self.there_and_back(memory, up, down)?;
        }
        Ok(())
    }

    fn there_and_back(&self, memory: &Memory, up: impl Fn(), down: impl Fn()) -> Result<()> {
        let expected = |at: usize| (at / 7) as u8;
        self.slice(memory).iter_mut().enumerate().for_each(|(at, byte)| *byte = expected(at));
        up();
        self.slice(memory).fill(0);
        down();
        let mut bytes = self.slice(memory).iter().enumerate();
        ensure!(bytes.all(|(at, byte)| *byte == expected(at)), "copied bytes differ");
        Ok(())
    }

    /// Copies to the device by Longshore. Blocks.
    pub(crate) fn upload(&self, from: &Memory) {
        self.ours.write(&self.both.ours.queue, black_box(self.slice(from))).unwrap();
    }

    /// Copies from the device by Longshore. Blocks.
    pub(crate) fn download(&self, to: &Memory) {
        self.ours.read(&self.both.ours.queue, black_box(self.slice(to))).unwrap();
    }

    /// Queues a copy to the device by Longshore.
    pub(crate) fn queue_upload(&self, from: &Memory) {
        let (queue, to, bytes) = (&self.both.ours.queue, self.ours.pointer(), self.bytes as u64);
        // SAFETY: both have `bytes` bytes and live until the wait for the queue.
        unsafe { queue.copy_from_host(to, from.start.cast(), bytes) }.unwrap();
    }

    /// Queues a copy from the device by Longshore.
    pub(crate) fn queue_download(&self, to: &Memory) {
        let (queue, from, bytes) = (&self.both.ours.queue, self.ours.pointer(), self.bytes as u64);
        // SAFETY: both have `bytes` bytes and live until the wait for the queue.
        unsafe { queue.copy_to_host(to.start.cast(), from, bytes) }.unwrap();
    }

    /// Waits for Longshore's queue.
    pub(crate) fn wait(&self) {
        self.both.ours.queue.synchronize().unwrap();
    }

    /// Copies to the device by the driver, on the stream. Blocks.
    pub(crate) fn upload_plainly(&self, from: &Memory) {
        self.queue_upload_plainly(from);
        self.wait_plainly();
    }

    /// Copies from the device by the driver, on the stream. Blocks.
    pub(crate) fn download_plainly(&self, to: &Memory) {
        self.queue_download_plainly(to);
        self.wait_plainly();
    }

    /// Queues a copy to the device by the driver, on the stream.
    pub(crate) fn queue_upload_plainly(&self, from: &Memory) {
        let (plain, from) = (&self.both.plain, from.start.cast());
        // SAFETY: both have `bytes` bytes and live until the wait for the stream.
        unsafe { plain.queue_upload(self.floor, from, self.bytes, self.stream) }.unwrap();
    }

    /// Queues a copy from the device by the driver, on the stream.
    pub(crate) fn queue_download_plainly(&self, to: &Memory) {
        let (plain, to) = (&self.both.plain, to.start.cast());
        // SAFETY: both have `bytes` bytes and live until the wait for the stream.
        unsafe { plain.queue_download(to, self.floor, self.bytes, self.stream) }.unwrap();
    }

    /// Waits for the stream.
    pub(crate) fn wait_plainly(&self) {
        // SAFETY: the stream is live.
        unsafe { self.both.plain.wait(self.stream) }.unwrap();
    }

    /// Copies to the device by the driver's blocking call.
    pub(crate) fn upload_by_driver(&self, from: &Memory) {
        let (plain, from) = (&self.both.plain, from.start.cast());
        // SAFETY: both have `bytes` bytes.
        unsafe { plain.upload(self.floor, from, self.bytes) }.unwrap();
    }

    /// Copies from the device by the driver's blocking call.
    pub(crate) fn download_by_driver(&self, to: &Memory) {
        let (plain, to) = (&self.both.plain, to.start.cast());
        // SAFETY: both have `bytes` bytes.
        unsafe { plain.download(to, self.floor, self.bytes) }.unwrap();
    }

    #[allow(clippy::mut_from_ref, reason = "it is reached by its address alone")]
    fn slice(&self, memory: &Memory) -> &mut [u8] {
        // SAFETY: the memory has `bytes` bytes, and one thread uses one slice at a time.
        unsafe { std::slice::from_raw_parts_mut(memory.start, self.bytes) }
    }
}

impl<D: Raw> Drop for Ends<'_, D> {
    fn drop(&mut self) {
        // SAFETY: no queued work uses it.
        let _ = unsafe { self.both.plain.free(self.floor) };
    }
}
