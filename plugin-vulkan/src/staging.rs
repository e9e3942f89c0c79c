//! Staging memory for copies if the host cannot access the device's memory.

use crate::logical::LogicalDevice;
use crate::memory::{Memory, Region, RegionPosition};
use crate::timeline::Timeline;
use ash::vk;
use gpu_allocator::MemoryLocation;
use longshore_plugin_api::Result;
use std::sync::Arc;

/// Size in bytes of one half of staging memory.
pub(crate) const HALF_BYTES: u64 = 4 << 20;

/// Mapped memory for staged copies, in two halves: the device copies one half while the host copies
/// the other.
pub(crate) struct Staging {
    region: Arc<Region>,
    pool: vk::CommandPool,
    commands: [vk::CommandBuffer; 2],
}

/// The direction of a copy by the device, between a half and its own memory.
#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

impl Staging {
    /// Creates staging memory for copies on a device.
    ///
    /// # Errors
    /// `OutOfResources`, and the driver's errors.
    pub(crate) fn new(device: &LogicalDevice, memory: &Memory) -> Result<Staging> {
        let region = memory.internal(MemoryLocation::GpuToCpu, 2 * HALF_BYTES)?;
        let family = device.transfer_queue().family;
        let made = device.command_buffers(family, vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        let (pool, commands) = made.inspect_err(|_| memory.release(&region))?;
        Ok(Staging { region, pool, commands })
    }

    /// Releases the memory.
    ///
    /// # Safety
    /// The memory belongs to this device, and no work uses it any more.
    pub(crate) unsafe fn destroy(self, device: &ash::Device, memory: &Memory) {
        // SAFETY: promised by the caller.
        unsafe { device.destroy_command_pool(self.pool, None) };
        memory.release(&self.region);
    }

    /// Copies from host memory. The timeline is at 0. Blocks.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn upload(
        &self,
        device: &LogicalDevice,
        timeline: &Timeline,
        to: &RegionPosition,
        from: u64,
        bytes: u64,
    ) -> Result<()> {
        for (index, (done, part)) in parts(bytes).enumerate() {
            // The half was last used two parts before.
            timeline.wait((index as u64).saturating_sub(1))?;
            // SAFETY: the half is mapped and not in use; the copy's caller vouches for the source.
            unsafe { copy_bytes(self.half(index) as u64, from + done, part) };
            self.submit(device, timeline, index, Direction::In, &to.further(done), part)?;
        }
        timeline.wait(parts(bytes).count() as u64)
    }

    /// Copies to host memory. The timeline is at 0. Blocks.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn download(
        &self,
        device: &LogicalDevice,
        timeline: &Timeline,
        from: &RegionPosition,
        to: u64,
        bytes: u64,
    ) -> Result<()> {
        let mut earlier: Option<(usize, u64, u64)> = None;
        let fetch = |(index, done, part): (usize, u64, u64)| {
            timeline.wait(index as u64 + 1)?;
            // SAFETY: the device has filled the half; the copy's caller vouches for the target.
            unsafe { copy_bytes(to + done, self.half(index) as u64, part) };
            Ok(())
        };
        for (index, (done, part)) in parts(bytes).enumerate() {
            let submitted =
                self.submit(device, timeline, index, Direction::Out, &from.further(done), part);
            if let Some(earlier) = earlier.replace((index, done, part)) {
                fetch(earlier)?;
            }
            submitted?;
        }
        earlier.map_or(Ok(()), fetch)
    }

    /// Submits the copy of a half; the timeline then reaches `index + 1`.
    fn submit(
        &self,
        device: &LogicalDevice,
        timeline: &Timeline,
        index: usize,
        direction: Direction,
        place: &RegionPosition,
        bytes: u64,
    ) -> Result<()> {
        let vk = &device.raw;
        let commands = self.commands[index % 2];
        let half = self.region.offset + (index as u64 % 2) * HALF_BYTES;
        let (staged, other) =
            ((self.region.buffer, half), (place.region.buffer, place.buffer_offset()));
        let (from, to) = match direction {
            Direction::In => (staged, other),
            Direction::Out => (other, staged),
        };
        let copy = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: bytes };
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // The host has waited for the writers of the memory, perhaps on another queue, but that
        // does not make their writes visible to this queue.
        let before = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE);
        let after = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ);
        // SAFETY: the command buffer's last use is over, because the timeline has been waited for;
        // the ranges lie in live buffers.
        let recorded = unsafe {
            vk.begin_command_buffer(commands, &begin).and_then(|()| {
                let wait = |from, to, barrier| {
                    let none = vk::DependencyFlags::empty();
                    vk.cmd_pipeline_barrier(commands, from, to, none, &[barrier], &[], &[]);
                };
                let transfer = vk::PipelineStageFlags::TRANSFER;
                wait(vk::PipelineStageFlags::ALL_COMMANDS, transfer, before);
                vk.cmd_copy_buffer(commands, from.0, to.0, &[copy]);
                wait(transfer, vk::PipelineStageFlags::HOST, after);
                vk.end_command_buffer(commands)
            })
        };
        device.check("recording a staged copy", recorded)?;
        let value = index as u64 + 1;
        let (commands, signals, values) = ([commands], [timeline.raw()], [value]);
        let mut timelines =
            vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&signals)
            .push_next(&mut timelines);
        // SAFETY: staging memory is kept until the timeline has been waited for. The program
        // vouches for its own memory until the copy is done.
        unsafe { device.transfer_queue().submit(device, &info)? };
        timeline.note_submitted(value);
        Ok(())
    }

    fn half(&self, index: usize) -> *mut u8 {
        // SAFETY: the region has two halves and is mapped.
        unsafe { self.region.mapped().add((index % 2) * HALF_BYTES as usize) }
    }
}

/// Returns the start and the length of each part of a copy.
fn parts(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = (0..bytes).step_by(HALF_BYTES as usize);
    starts.map(move |start| (start, (bytes - start).min(HALF_BYTES)))
}

/// # Safety
/// Both ranges are valid and do not overlap.
unsafe fn copy_bytes(to: u64, from: u64, bytes: u64) {
    // SAFETY: promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes as usize) }
}
