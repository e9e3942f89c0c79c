//! What is handed to the driver together: a command buffer and what its commands need.

mod arguments;

use crate::arena::{Arena, CHUNK_BYTES};
use crate::descriptors::Descriptors;
use crate::device_core::DeviceCore;
use crate::kernel::KernelCore;
use crate::memory::{Found, Region};
use crate::pipeline::MOST_PUSH_CONSTANTS;
use crate::timeline::Timeline;
use crate::timestamps::QuerySlot;
use arguments::Bound;
use ash::vk;
use gpu_allocator::MemoryLocation;
use longshore_plugin_api::{Arguments, Result};
use std::sync::Arc;

/// So many commands make a batch full.
const MOST_COMMANDS: u32 = 4096;

/// Commands that are being recorded or run. Reused when they are done.
pub(crate) struct Batch {
    /// What the queue's timeline reaches when the commands are done.
    pub(crate) value: u64,
    /// What must be reached before they begin. The driver was given all of it before.
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
    bound: Bound,
}

/// A launch whose shape was checked.
pub(crate) struct Dispatch<'a> {
    pub(crate) kernel: &'a KernelCore,
    pub(crate) pipeline: vk::Pipeline,
    pub(crate) groups: [u32; 3],
}

impl Batch {
    /// An empty batch for queues of a family.
    ///
    /// # Errors
    /// Those of the driver.
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
            bound: Bound::default(),
        })
    }

    /// Whether there is nothing in it that the driver would have to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.waits.is_empty()
    }

    /// Whether nothing more should be added.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= MOST_COMMANDS
    }

    /// How many commands there are.
    pub(crate) fn commands(&self) -> u32 {
        self.count
    }

    /// Records a launch. If that fails, nothing was recorded.
    ///
    /// # Errors
    /// `InvalidArgument` for a bound pointer that cannot be; those of the driver.
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
        // SAFETY: the command buffer is recording; pipeline, layout and sets are live until the
        // batch is done: kernels outlive the queues' use of them, which the host sees to.
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
    /// third.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn copy(&mut self, to: &Found, from: &Found, bytes: u64) -> Result<()> {
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

    /// Records a copy of the program's bytes, which are captured now.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn upload(&mut self, to: &Found, bytes: &[u8]) -> Result<()> {
        let piece = self.arena.reserve(&self.device.memory, bytes.len() as u64, 4)?;
        piece.write(0, bytes);
        let length = bytes.len() as u64;
        let target = (to.region.buffer, to.buffer_offset());
        self.copy_buffer(target, (piece.buffer, piece.offset), length)
    }

    /// Records a fill; `bytes` is a multiple of the pattern's length.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn fill(&mut self, to: &Found, pattern: &[u8], bytes: u64) -> Result<()> {
        let (buffer, start) = (to.region.buffer, to.buffer_offset());
        if let Some(word) = as_word(pattern)
            && start.is_multiple_of(4)
            && bytes.is_multiple_of(4)
        {
            let commands = self.next_command()?;
            // SAFETY: the command buffer is recording, the range lies in the live buffer.
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
        // What is filled doubles with each copy.
        let mut filled = first;
        while filled < bytes {
            let part = filled.min(bytes - filled);
            self.copy_buffer((buffer, start + filled), (buffer, start), part)?;
            filled += part;
        }
        Ok(())
    }

    /// Records the time at which all before it is done.
    ///
    /// # Errors
    /// Those of the driver.
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

    /// Ends the recording, so that the host sees what the commands wrote when they are done.
    ///
    /// # Errors
    /// Those of the driver, which may tell of any command only now.
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

    /// Hands the batch to the driver; `timeline` reaches its value when it is done.
    ///
    /// # Errors
    /// Those of the driver: then it was not handed over.
    pub(crate) fn submit(&self, lane: usize, timeline: &Timeline) -> Result<()> {
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
        // SAFETY: the queue keeps the batch, and with it all that its commands use of the
        // backend's, until the value is reached; the program keeps what is its own.
        unsafe { self.device.lane(lane).submit(&self.device, &info)? };
        timeline.note_submitted(self.value);
        Ok(())
    }

    /// Says that the driver did not take it.
    pub(crate) fn skip(&self) {
        self.queries.iter().for_each(|query| query.skip());
    }

    /// Makes it empty. Its commands are done, or never were handed over. Answers whether it can be used
    /// again.
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

    /// The command buffer, ready for a command that comes after all before it and sees what they did. The
    /// first one too: that the host waited for earlier work, of this queue or of another one, does not
    /// make what it wrote visible to the device.
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
        let commands = self.next_command()?;
        let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: bytes };
        // SAFETY: the command buffer is recording, the ranges lie in live buffers and are apart.
        unsafe { self.device.raw.cmd_copy_buffer(commands, from.0, to.0, &[region]) };
        Ok(())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.reset();
        self.arena.destroy(&self.device.memory);
        let vk = &self.device.raw;
        // SAFETY: the commands do not run: whoever drops a batch has waited for it, or the device
        // is lost.
        unsafe {
            self.descriptors.destroy(vk);
            vk.destroy_command_pool(self.pool, None);
        }
    }
}

/// Where work happens.
const WORK_STAGES: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);

/// A pattern of 1, 2 or 4 bytes as a word.
fn as_word(pattern: &[u8]) -> Option<u32> {
    match *pattern {
        [byte] => Some(u32::from_ne_bytes([byte; 4])),
        [first, second] => Some(u32::from_ne_bytes([first, second, first, second])),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}

// SAFETY: the pieces' pointers are into mappings that the batch owns; nobody else writes there.
unsafe impl Send for Batch {}
