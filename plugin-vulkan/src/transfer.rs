//! Copies that a thread of the host does, where the device cannot: from and to memory of the program,
//! and between two devices.

use crate::device::DeviceCore;
use crate::memory::{Found, Memory, Region};
use crate::timeline::Timeline;
use ash::vk;
use gpu_allocator::MemoryLocation;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::sync::Arc;

/// Size of one of the two halves of staging memory.
const HALF_BYTES: u64 = 4 << 20;

/// One end of a copy.
pub(crate) enum End {
    /// Memory of the program that no device knows.
    Host(u64),
    /// Memory of the queue's device, or that it knows.
    Device(Found),
    /// Memory of another device of the platform.
    Other(Arc<DeviceCore>, Found),
}

/// A copy; whoever queued it vouches for the memory of the program.
pub(crate) struct CopyJob {
    pub(crate) device: Arc<DeviceCore>,
    pub(crate) to: End,
    pub(crate) from: End,
    pub(crate) bytes: u64,
}

/// How a thread of the host gets at an end.
enum Reach<'a> {
    /// By a pointer.
    Direct(u64),
    /// Through staging memory of a device.
    Staged(&'a Arc<DeviceCore>, &'a Found),
}

impl CopyJob {
    /// Whether a thread of the host can do it without the device.
    pub(crate) fn is_direct(&self) -> bool {
        let is_direct = |end| matches!(self.reach(end), Reach::Direct(_));
        is_direct(&self.to) && is_direct(&self.from)
    }

    /// Copies. What else uses the memory is done. Blocks.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn run(&self) -> Result<()> {
        match (self.reach(&self.to), self.reach(&self.from)) {
            (Reach::Direct(to), Reach::Direct(from)) => {
                // SAFETY: both ranges are the host's, as the mapping or whoever queued the copy
                // vouches for.
                unsafe {
                    std::ptr::copy(from as *const u8, to as *mut u8, self.bytes as usize);
                }
                Ok(())
            }
            (Reach::Staged(device, to), Reach::Direct(from)) => {
                with_staging(device, |staging, timeline| {
                    staging.upload(device, timeline, to, from, self.bytes)
                })
            }
            (Reach::Direct(to), Reach::Staged(device, from)) => {
                with_staging(device, |staging, timeline| {
                    staging.download(device, timeline, from, to, self.bytes)
                })
            }
            (Reach::Staged(to_device, to), Reach::Staged(from_device, from)) => {
                self.through_both(to_device, to, from_device, from)
            }
        }
    }

    fn reach<'a>(&'a self, end: &'a End) -> Reach<'a> {
        let (device, found) = match end {
            End::Host(address) => return Reach::Direct(*address),
            End::Device(found) => (&self.device, found),
            End::Other(device, found) => (device, found),
        };
        match found.host().filter(|_| !device.always_stage) {
            Some(address) => Reach::Direct(address),
            None => Reach::Staged(device, found),
        }
    }

    /// Piece by piece through memory of the host.
    fn through_both(
        &self,
        to_device: &Arc<DeviceCore>,
        to: &Found,
        from_device: &Arc<DeviceCore>,
        from: &Found,
    ) -> Result<()> {
        let mut between = vec![0u8; self.bytes.min(HALF_BYTES) as usize];
        let mut done = 0;
        while done < self.bytes {
            let part = (self.bytes - done).min(HALF_BYTES);
            let address = between.as_mut_ptr() as u64;
            let (source, target) = (from.further(done), to.further(done));
            with_staging(from_device, |staging, timeline| {
                staging.download(from_device, timeline, &source, address, part)
            })?;
            with_staging(to_device, |staging, timeline| {
                staging.upload(to_device, timeline, &target, address, part)
            })?;
            done += part;
        }
        Ok(())
    }
}

impl Found {
    /// The place `bytes` further on.
    fn further(&self, bytes: u64) -> Found {
        Found { region: Arc::clone(&self.region), offset: self.offset + bytes }
    }
}

/// Mapped memory that copies go through, in two halves: one is copied by the device while the host
/// copies the other.
pub(crate) struct Staging {
    region: Arc<Region>,
    pool: vk::CommandPool,
    commands: [vk::CommandBuffer; 2],
}

/// A copy by the device, between a half and memory of its own.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl Staging {
    fn new(device: &Arc<DeviceCore>) -> Result<Staging> {
        let memory = &device.memory;
        let region = memory.internal(device, MemoryLocation::GpuToCpu, 2 * HALF_BYTES)?;
        let family = device.transfer_lane().family;
        let made = device.command_buffers(family, vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        let (pool, commands) = made.inspect_err(|_| memory.release(&region))?;
        Ok(Staging { region, pool, commands })
    }

    /// Gives it back.
    ///
    /// # Safety
    /// It is of this device, and nothing uses it any more.
    pub(crate) unsafe fn destroy(self, device: &ash::Device, memory: &Memory) {
        // SAFETY: promised by the caller.
        unsafe { device.destroy_command_pool(self.pool, None) };
        memory.release(&self.region);
    }

    fn upload(
        &self,
        device: &DeviceCore,
        timeline: &Timeline,
        to: &Found,
        from: u64,
        bytes: u64,
    ) -> Result<()> {
        for (index, (done, part)) in parts(bytes).enumerate() {
            // The half was last used two parts ago.
            timeline.wait((index as u64).saturating_sub(1))?;
            // SAFETY: the half is mapped and not in use; whoever queued the copy vouches for the source.
            unsafe { copy_bytes(self.half(index) as u64, from + done, part) };
            self.submit(device, timeline, index, Way::In, &to.further(done), part)?;
        }
        timeline.wait(parts(bytes).count() as u64)
    }

    fn download(
        &self,
        device: &DeviceCore,
        timeline: &Timeline,
        from: &Found,
        to: u64,
        bytes: u64,
    ) -> Result<()> {
        let mut earlier: Option<(usize, u64, u64)> = None;
        let fetch = |(index, done, part): (usize, u64, u64)| {
            timeline.wait(index as u64 + 1)?;
            // SAFETY: the device has filled the half; whoever queued the copy vouches for the target.
            unsafe { copy_bytes(to + done, self.half(index) as u64, part) };
            Ok(())
        };
        for (index, (done, part)) in parts(bytes).enumerate() {
            let submitted =
                self.submit(device, timeline, index, Way::Out, &from.further(done), part);
            if let Some(earlier) = earlier.replace((index, done, part)) {
                fetch(earlier)?;
            }
            submitted?;
        }
        earlier.map_or(Ok(()), fetch)
    }

    /// Has the device copy a half; the timeline reaches `index + 1` then.
    fn submit(
        &self,
        device: &DeviceCore,
        timeline: &Timeline,
        index: usize,
        way: Way,
        place: &Found,
        bytes: u64,
    ) -> Result<()> {
        let vk = &device.raw;
        let commands = self.commands[index % 2];
        let half = self.region.offset + (index as u64 % 2) * HALF_BYTES;
        let (staged, other) =
            ((self.region.buffer, half), (place.region.buffer, place.buffer_offset()));
        let (from, to) = match way {
            Way::In => (staged, other),
            Way::Out => (other, staged),
        };
        let copy = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: bytes };
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // The host has waited for what wrote the memory, maybe on another queue, but that makes nothing
        // visible to this one.
        let before = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE);
        let after = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ);
        // SAFETY: the command buffer's last use is over, as the timeline has been waited for; the
        // ranges lie in live buffers.
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
        // SAFETY: staging memory is kept until the timeline was waited for, the program's memory
        // until the copy is done, as it vouches for.
        unsafe { device.transfer_lane().submit(device, &info)? };
        timeline.note_submitted(value);
        Ok(())
    }

    fn half(&self, index: usize) -> *mut u8 {
        // SAFETY: the region has two halves and is mapped.
        unsafe { self.region.mapped().add((index % 2) * HALF_BYTES as usize) }
    }
}

/// Calls `body` with staging memory of a device that nobody else uses meanwhile, and a timeline at 0.
fn with_staging(
    device: &Arc<DeviceCore>,
    body: impl FnOnce(&Staging, &Timeline) -> Result<()>,
) -> Result<()> {
    // It goes only when what was submitted with it is done.
    let timeline = Timeline::new(device)?;
    let unused = device.staging.lock().pop();
    let staging = unused.map_or_else(|| Staging::new(device), Ok)?;
    let result = body(&staging, &timeline);
    if result.is_err() {
        // Some of it may still be under way.
        device.wait_for_lanes();
    }
    device.staging.lock().push(staging);
    result
}

/// Begin and length of each part of a copy.
fn parts(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = (0..bytes).step_by(HALF_BYTES as usize);
    starts.map(move |start| (start, (bytes - start).min(HALF_BYTES)))
}

/// # Safety
/// Both ranges are valid and apart.
unsafe fn copy_bytes(to: u64, from: u64, bytes: u64) {
    // SAFETY: promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes as usize) }
}

/// Fills memory of the host with copies of a pattern.
///
/// # Safety
/// The range is valid and nobody else uses it.
pub(crate) unsafe fn fill(to: u64, pattern: &[u8], bytes: u64) {
    // SAFETY: promised by the caller.
    let range = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, bytes as usize) };
    if let [byte] = pattern {
        return range.fill(*byte);
    }
    let mut filled = pattern.len().min(range.len());
    range[..filled].copy_from_slice(&pattern[..filled]);
    while filled < range.len() {
        let part = filled.min(range.len() - filled);
        range.copy_within(..part, filled);
        filled += part;
    }
}

/// What an address of the device's memory is.
///
/// # Errors
/// `InvalidArgument` if it is in no allocation, `InvalidSize` if the range goes beyond it.
pub(crate) fn find(device: &DeviceCore, address: u64, bytes: u64) -> Result<Found> {
    let Some(found) = device.memory.find(address) else {
        let name = &device.physical.name;
        let message = format!("{address:#x} is in no allocation of '{name}'");
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    };
    if found.rest() < bytes {
        let rest = found.rest();
        let message = format!(
            "{bytes} bytes at {address:#x}, expected at most the {rest} to the allocation's end"
        );
        return Err(Error::new(ErrorCode::InvalidSize, message));
    }
    Ok(found)
}
