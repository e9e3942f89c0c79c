//! Batches: a command buffer with the resources of its commands, submitted as a whole.

mod arguments;

use crate::arena::{Arena, CHUNK_BYTES};
use crate::descriptors::Descriptors;
use crate::device_core::DeviceCore;
use crate::kernel::KernelCore;
use crate::memory::{Region, RegionPosition};
use crate::pipeline::MOST_PUSH_CONSTANTS;
use crate::timeline::Timeline;
use crate::timestamps::QuerySlot;
use arguments::BoundArguments;
use ash::vk;
use gpu_allocator::MemoryLocation;
use longshore_plugin_api::{Arguments, Result};
use std::sync::Arc;

/// Number of commands of a full batch.
const MOST_COMMANDS: u32 = 4096;

/// Commands of a command buffer that is recorded or runs. A batch is reused after its commands are
/// done.
pub(crate) struct Batch {
    /// The value that the queue's timeline reaches when the commands are done.
    pub(crate) value: u64,
    /// The timeline values that the commands wait for. The driver already has the work that reaches
    /// them.
    pub(crate) waits: Vec<(Arc<Timeline>, u64)>,
    device: Arc<DeviceCore>,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    recording: bool,
    count: u32,
    arena: Arena,
    descriptors: Descriptors,
    temporaries: Vec<Arc<Region>>,
    queries: Vec<Arc<QuerySlot>>,
    pipeline: vk::Pipeline,
    bound: BoundArguments,
}

/// A launch with a checked shape.
pub(crate) struct Dispatch<'a> {
    pub(crate) kernel: &'a KernelCore,
    pub(crate) pipeline: vk::Pipeline,
    pub(crate) groups: [u32; 3],
}

impl Batch {
    /// Creates an empty batch for queues of a family.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn new(device: &Arc<DeviceCore>, family: u32) -> Result<Batch> {
        let (pool, [commands]) =
            device.command_buffers(family, vk::CommandPoolCreateFlags::TRANSIENT)?;
        device.name(commands, "Longshore batch");
        Ok(Batch {
            value: 0,
            waits: Vec::new(),
            device: Arc::clone(device),
            pool,
            commands,
            recording: false,
            count: 0,
            arena: Arena::default(),
            descriptors: Descriptors::default(),
            temporaries: Vec::new(),
            queries: Vec::new(),
            pipeline: vk::Pipeline::null(),
            bound: BoundArguments::default(),
        })
    }

    /// Returns whether the batch has no work for the driver.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.waits.is_empty()
    }

    /// Returns whether the batch is full.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= MOST_COMMANDS
    }

    /// Returns the number of commands.
    pub(crate) fn commands(&self) -> u32 {
        self.count
    }

    /// Records a launch. On failure, nothing is recorded.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid bound pointer, and the driver's errors.
    pub(crate) fn launch(&mut self, launch: &Dispatch<'_>, arguments: Arguments<'_>) -> Result<()> {
        let mut constants = [0; MOST_PUSH_CONSTANTS as usize];
        let kernel = launch.kernel;
        let pushed = self.lay_out(kernel, arguments, &mut constants)?;
        if !kernel.layout.slots.is_empty() {
            self.prepare_sets(kernel)?;
        }
        let commands = self.next_command()?;
        let vk = &self.device.raw;
        let (layout, stage) = (kernel.layout.raw, vk::PipelineBindPoint::COMPUTE);
        let [x, y, z] = launch.groups;
        // SAFETY: the command buffer is recording. Pipeline, layout and sets live until the batch
        // is done: the host ensures that kernels outlive the queues' use of them.
        unsafe {
            if self.pipeline != launch.pipeline {
                vk.cmd_bind_pipeline(commands, stage, launch.pipeline);
                self.pipeline = launch.pipeline;
            }
            let bound = &mut self.bound;
            if !kernel.layout.slots.is_empty() && bound.bound_at.as_ref() != Some(&bound.dynamic) {
                let (sets, dynamic) = (&bound.sets, &bound.dynamic);
                vk.cmd_bind_descriptor_sets(commands, stage, layout, 0, sets, dynamic);
                bound.bound_at.get_or_insert_default().clone_from(&bound.dynamic);
            }
            if pushed > 0 {
                let stages = vk::ShaderStageFlags::COMPUTE;
                vk.cmd_push_constants(commands, layout, stages, 0, &constants[..pushed]);
            }
            vk.cmd_dispatch(commands, x, y, z);
        }
        Ok(())
    }

    /// Records a copy between two buffers of the device. Overlapping ranges copy as if through a
    /// third buffer.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn copy(
        &mut self,
        to: &RegionPosition,
        from: &RegionPosition,
        bytes: u64,
    ) -> Result<()> {
        let (to_offset, from_offset) = (to.buffer_offset(), from.buffer_offset());
        let (to, from) = (to.region.buffer, from.region.buffer);
        if to != from || to_offset.abs_diff(from_offset) >= bytes {
            return self.copy_buffer((to, to_offset), (from, from_offset), bytes);
        }
        let memory = &self.device.memory;
        let between = memory.internal(MemoryLocation::GpuOnly, bytes)?;
        let place = (between.buffer, between.offset);
        self.temporaries.push(between);
        self.copy_buffer(place, (from, from_offset), bytes)?;
        self.copy_buffer((to, to_offset), place, bytes)
    }

    /// Records a copy of the program's bytes, which are captured during the call.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn upload(&mut self, to: &RegionPosition, bytes: &[u8]) -> Result<()> {
        let piece = self.arena.reserve(&self.device.memory, bytes.len() as u64, 4)?;
        piece.write(0, bytes);
        let length = bytes.len() as u64;
        let target = (to.region.buffer, to.buffer_offset());
        self.copy_buffer(target, (piece.buffer, piece.offset), length)
    }

    /// Records a fill; `bytes` is a multiple of the pattern's length.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn fill(&mut self, to: &RegionPosition, pattern: &[u8], bytes: u64) -> Result<()> {
        let (buffer, start) = (to.region.buffer, to.buffer_offset());
        if let Some(word) = as_word(pattern)
            && start.is_multiple_of(4)
            && bytes.is_multiple_of(4)
        {
            let commands = self.next_command()?;
            // SAFETY: the command buffer is recording, and the range lies in the live buffer.
            unsafe { self.device.raw.cmd_fill_buffer(commands, buffer, start, bytes, word) };
            return Ok(());
        }
        let length = pattern.len() as u64;
        let whole = (CHUNK_BYTES / 4 / length).max(1) * length;
        let first = whole.min(bytes);
        let piece = self.arena.reserve(&self.device.memory, first, 4)?;
        for at in (0..first).step_by(pattern.len()) {
            piece.write(at, pattern);
        }
        self.copy_buffer((buffer, start), (piece.buffer, piece.offset), first)?;
        // The filled part doubles with each copy.
        let mut filled = first;
        while filled < bytes {
            let part = filled.min(bytes - filled);
            self.copy_buffer((buffer, start + filled), (buffer, start), part)?;
            filled += part;
        }
        Ok(())
    }

    /// Records a timestamp after all earlier work.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn timestamp(&mut self, slot: &Arc<QuerySlot>) -> Result<()> {
        let commands = self.next_command()?;
        let (pool, index) = (slot.pool(), slot.index());
        // SAFETY: the command buffer is recording; the slot is kept until the batch is done.
        unsafe {
            self.device.raw.cmd_reset_query_pool(commands, pool, index, 1);
            let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
            self.device.raw.cmd_write_timestamp(commands, stage, pool, index);
        }
        self.queries.push(Arc::clone(slot));
        Ok(())
    }

    /// Ends the recording, with a barrier that makes the commands' writes visible to the host.
    ///
    /// # Errors
    /// The driver's errors; the driver may report a failure of any command only here.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if !self.recording {
            return Ok(());
        }
        self.recording = false;
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ | vk::AccessFlags::HOST_WRITE);
        // SAFETY: the command buffer is recording.
        let ended = unsafe {
            self.device.raw.cmd_pipeline_barrier(
                self.commands,
                WORK_STAGES,
                vk::PipelineStageFlags::HOST,
                vk::DependencyFlags::empty(),
                &[barrier],
                &[],
                &[],
            );
            self.device.raw.end_command_buffer(self.commands)
        };
        self.device.check("recording work", ended)
    }

    /// Submits the batch to the driver; `timeline` reaches the batch's value when the commands are
    /// done.
    ///
    /// # Errors
    /// The driver's errors: then the batch was not submitted.
    pub(crate) fn submit(&self, device_queue: usize, timeline: &Timeline) -> Result<()> {
        let (signals, values) = ([timeline.raw()], [self.value]);
        let waits: Vec<_> = self.waits.iter().map(|(timeline, _)| timeline.raw()).collect();
        let wait_values: Vec<_> = self.waits.iter().map(|(_, value)| *value).collect();
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let commands = [self.commands];
        let mut timelines = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages)
            .command_buffers(if self.count > 0 { &commands } else { &[] })
            .signal_semaphores(&signals)
            .push_next(&mut timelines);
        // SAFETY: the queue keeps the batch, and with it the backend's resources of its commands,
        // until the value is reached. The program keeps its own memory.
        unsafe { self.device.device_queue(device_queue).submit(&self.device, &info)? };
        timeline.note_submitted(self.value);
        Ok(())
    }

    /// Marks the timestamps of a batch that the driver did not take.
    pub(crate) fn skip(&self) {
        self.queries.iter().for_each(|query| query.skip());
    }

    /// Empties the batch, whose commands are done or were never submitted. Returns whether the
    /// batch can be reused.
    pub(crate) fn reset(&mut self) -> bool {
        let vk = &self.device.raw;
        // SAFETY: the commands do not run.
        let was_reset = unsafe {
            self.descriptors.reset(vk);
            vk.reset_command_pool(self.pool, vk::CommandPoolResetFlags::empty())
        };
        self.recording = false;
        self.count = 0;
        self.waits.clear();
        self.queries.clear();
        self.pipeline = vk::Pipeline::null();
        self.bound.layout = vk::PipelineLayout::null();
        self.arena.reset(&self.device.memory);
        for region in self.temporaries.drain(..) {
            self.device.memory.release(&region);
        }
        was_reset.is_ok()
    }

    /// Returns the command buffer, ready for a command that runs after all earlier ones and sees
    /// their writes. The first command also needs a barrier. A host wait for earlier work of this
    /// or another queue does not make its writes visible to the device.
    fn next_command(&mut self) -> Result<vk::CommandBuffer> {
        let vk = &self.device.raw;
        if !self.recording {
            let info = vk::CommandBufferBeginInfo::default()
                .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            // SAFETY: the command buffer is not in use.
            let begun = unsafe { vk.begin_command_buffer(self.commands, &info) };
            self.device.check("recording work", begun)?;
            self.recording = true;
        }
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(
                vk::AccessFlags::SHADER_READ
                    | vk::AccessFlags::SHADER_WRITE
                    | vk::AccessFlags::UNIFORM_READ
                    | vk::AccessFlags::TRANSFER_READ
                    | vk::AccessFlags::TRANSFER_WRITE,
            );
        let (commands, none) = (self.commands, vk::DependencyFlags::empty());
        // SAFETY: the command buffer is recording.
        unsafe {
            vk.cmd_pipeline_barrier(commands, WORK_STAGES, WORK_STAGES, none, &[barrier], &[], &[]);
        }
        self.count += 1;
        Ok(self.commands)
    }

    fn copy_buffer(
        &mut self,
        to: (vk::Buffer, u64),
        from: (vk::Buffer, u64),
        bytes: u64,
    ) -> Result<()> {
        let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: bytes };
        self.copy_regions(to.0, from.0, &[region])
    }

    /// Records copies of regions between two buffers. The caller guarantees that the regions lie in
    /// the buffers and do not overlap.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn copy_regions(
        &mut self,
        to: vk::Buffer,
        from: vk::Buffer,
        regions: &[vk::BufferCopy],
    ) -> Result<()> {
        let commands = self.next_command()?;
        // SAFETY: the command buffer is recording; the ranges lie in live buffers and do not
        // overlap.
        unsafe { self.device.raw.cmd_copy_buffer(commands, from, to, regions) };
        Ok(())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.reset();
        self.arena.destroy(&self.device.memory);
        let vk = &self.device.raw;
        // SAFETY: the commands do not run: the owner waited for the batch before dropping it, or
        // the device is lost.
        unsafe {
            self.descriptors.destroy(vk);
            vk.destroy_command_pool(self.pool, None);
        }
    }
}

/// Pipeline stages of all commands.
const WORK_STAGES: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);

/// Returns a pattern of 1 byte, 2 bytes or 4 bytes as a word.
fn as_word(pattern: &[u8]) -> Option<u32> {
    match *pattern {
        [byte] => Some(u32::from_ne_bytes([byte; 4])),
        [first, second] => Some(u32::from_ne_bytes([first, second, first, second])),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}

// SAFETY: the pieces' pointers are into mappings that the batch owns, and no other thread writes
// there.
unsafe impl Send for Batch {}
