//! What is handed to the driver together: a command buffer and what its commands need.

use crate::arena::{Arena, CHUNK_BYTES, Piece};
use crate::descriptors::Descriptors;
use crate::device::DeviceCore;
use crate::event::QuerySlot;
use crate::kernel::KernelCore;
use crate::memory::{Found, Region};
use crate::pipeline::Slot;
use crate::timeline::Timeline;
use ash::vk;
use gpu_allocator::MemoryLocation;
use longshore_plugin_api::{Arguments, Error, ErrorCode, Result};
use longshore_spirv::{Home, Place};
use std::sync::Arc;

/// So many commands make a batch full.
const MOST_COMMANDS: u32 = 4096;
/// Most push constants that are used, whatever the device has.
pub(crate) const MOST_PUSH_CONSTANTS: u32 = 256;
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
    /// The next command comes after others, and must see what they did.
    needs_barrier: bool,
    arena: Arena,
    descriptors: Descriptors,
    temporaries: Vec<Arc<Region>>,
    queries: Vec<Arc<QuerySlot>>,
    pipeline: vk::Pipeline,
    bound: Bound,
}

/// The descriptor sets of the last launch, and what the next one wants.
#[derive(Default)]
struct Bound {
    layout: vk::PipelineLayout,
    sets: Vec<vk::DescriptorSet>,
    now: Vec<Binding>,
    wanted: Vec<Binding>,
    /// Where the blocks of the next launch lie.
    dynamic: Vec<u32>,
    /// Where those of the last one lie, if its sets are still bound.
    bound_at: Option<Vec<u32>>,
}

/// What a descriptor refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Binding {
    region: u64,
    buffer: vk::Buffer,
    offset: u64,
    range: u64,
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
        let doing = "making a command buffer";
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::TRANSIENT)
            .queue_family_index(family);
        // SAFETY: the device is live and has the family.
        let pool = unsafe { device.raw.create_command_pool(&info, None) };
        let pool = device.check(doing, pool)?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is live and ours.
        let commands = unsafe { device.raw.allocate_command_buffers(&info) };
        let commands = device.check(doing, commands).inspect_err(|_| {
            // SAFETY: nothing was made from the pool.
            unsafe { device.raw.destroy_command_pool(pool, None) };
        })?;
        device.name(commands[0], "Longshore batch");
        Ok(Batch {
            value: 0,
            waits: Vec::new(),
            device: Arc::clone(device),
            pool,
            commands: commands[0],
            recording: false,
            count: 0,
            needs_barrier: false,
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

    /// Says whether there was work before this batch.
    pub(crate) fn follows_work(&mut self, follows: bool) {
        self.needs_barrier = follows;
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
        let between = memory.internal(&self.device, MemoryLocation::GpuOnly, bytes)?;
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
        let piece = self.arena.reserve(&self.device, bytes.len() as u64, 4)?;
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
        let piece = self.arena.reserve(&self.device, first, 4)?;
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

    /// Makes it empty. Its commands are done, or never were handed over.
    pub(crate) fn reset(&mut self) {
        let vk = &self.device.raw;
        // SAFETY: the commands do not run.
        unsafe {
            // A pool that cannot be reset fails again when it is used.
            let _ = vk.reset_command_pool(self.pool, vk::CommandPoolResetFlags::empty());
            self.descriptors.reset(vk);
        }
        self.recording = false;
        self.count = 0;
        self.needs_barrier = false;
        self.waits.clear();
        self.queries.clear();
        self.pipeline = vk::Pipeline::null();
        self.bound.layout = vk::PipelineLayout::null();
        self.arena.reset(&self.device);
        for region in self.temporaries.drain(..) {
            self.device.memory.release(&region);
        }
    }

    /// The command buffer, ready for a command that comes after all before it.
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
        if self.needs_barrier {
            let barrier = vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE)
                .dst_access_mask(
                    vk::AccessFlags::SHADER_READ
                        | vk::AccessFlags::SHADER_WRITE
                        | vk::AccessFlags::UNIFORM_READ
                        | vk::AccessFlags::TRANSFER_READ
                        | vk::AccessFlags::TRANSFER_WRITE,
                );
            let none = vk::DependencyFlags::empty();
            // SAFETY: the command buffer is recording.
            unsafe {
                vk.cmd_pipeline_barrier(
                    self.commands,
                    WORK_STAGES,
                    WORK_STAGES,
                    none,
                    &[barrier],
                    &[],
                    &[],
                );
            }
        }
        self.needs_barrier = true;
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

    /// Puts the arguments where the kernel reads them, and notes what is to be bound. Answers how
    /// many bytes of `constants` are push constants.
    fn lay_out(
        &mut self,
        kernel: &KernelCore,
        arguments: Arguments<'_>,
        constants: &mut [u8],
    ) -> Result<usize> {
        let shape = &kernel.shape;
        let mut pushed = 0;
        self.bound.wanted.clear();
        self.bound.dynamic.clear();
        // Blocks first, so that values can be written to them; in the order of the slots.
        let mut pieces = [const { None::<Piece> }; MOST_BLOCKS];
        for slot in &kernel.layout.slots {
            let Slot::Block { index, .. } = *slot else {
                self.bound.wanted.push(UNBOUND);
                continue;
            };
            let bytes = u64::from(shape.blocks[index].bytes);
            let alignment = kernel.layout.block_alignment;
            let piece = self.arena.reserve(&self.device, bytes, alignment)?;
            let (buffer, region) = (piece.buffer, piece.region);
            self.bound.wanted.push(Binding { region, buffer, offset: 0, range: bytes });
            self.bound.dynamic.push(piece.offset as u32);
            pieces[index] = Some(piece);
        }
        for block in shape.blocks.iter().filter(|block| block.home == Home::PushConstants) {
            pushed = block.bytes as usize;
        }
        let mut put = |batch: &mut Batch, place: Place, value: &[u8]| match place {
            Place::Block { index, offset } => {
                match &pieces[index] {
                    Some(piece) => piece.write(offset.into(), value),
                    None => constants[offset as usize..][..value.len()].copy_from_slice(value),
                }
                Ok(())
            }
            Place::Buffer { index } => batch.want(kernel, index, address(value)),
        };
        for (parameter, value) in shape.parameters.iter().zip(arguments.values()) {
            if parameter.pointer && matches!(parameter.place, Place::Block { .. }) {
                let translated = self.device.memory.translate(address(value));
                put(self, parameter.place, &translated.to_ne_bytes())?;
            } else {
                put(self, parameter.place, value)?;
            }
        }
        for place in &shape.globals {
            put(self, *place, &kernel.globals_address.to_ne_bytes())?;
        }
        Ok(pushed)
    }

    /// Notes that a buffer is to be bound to memory from an address on.
    fn want(&mut self, kernel: &KernelCore, index: usize, address: u64) -> Result<()> {
        let limits = &self.device.physical.limits;
        let slots = kernel.layout.slots.iter();
        let position = slots.into_iter().position(|slot| slot.is_buffer(index));
        let position = position.expect("every buffer has a slot");
        let buffer = &kernel.shape.buffers[index];
        let (alignment, most) = match buffer.uniform {
            true => (limits.uniform_alignment, limits.uniform_range),
            false => (limits.storage_alignment, limits.storage_range),
        };
        let refuse = |what: String| {
            let (set, binding) = (buffer.set, buffer.binding);
            let message = format!(
                "kernel '{}': the pointer {address:#x} for set {set}, binding {binding}: {what}",
                kernel.shape.name
            );
            Error::new(ErrorCode::InvalidArgument, message)
        };
        let Some(found) = self.device.memory.find(address) else {
            return Err(refuse("it is not in any allocation of the device".to_owned()));
        };
        let offset = found.buffer_offset();
        if !offset.is_multiple_of(alignment) {
            return Err(refuse(format!(
                "it is {offset} bytes from its buffer's start, expected a multiple of {alignment}"
            )));
        }
        let rest = found.rest();
        if rest < u64::from(buffer.least_bytes) {
            let least = buffer.least_bytes;
            return Err(refuse(format!(
                "its allocation has {rest} bytes from there on, expected at least {least}"
            )));
        }
        self.bound.wanted[position] = Binding {
            region: found.region.id,
            buffer: found.region.buffer,
            offset,
            range: rest.min(most),
        };
        Ok(())
    }

    /// Makes descriptor sets for what is wanted, unless those of the last launch are the same.
    fn prepare_sets(&mut self, kernel: &KernelCore) -> Result<()> {
        let bound = &mut self.bound;
        if bound.layout == kernel.layout.raw && bound.now == bound.wanted {
            return Ok(());
        }
        bound.layout = vk::PipelineLayout::null();
        bound.bound_at = None;
        let layout = &kernel.layout;
        let descriptors = layout.slots.len() as u32;
        self.descriptors.allocate(&self.device, &layout.sets, descriptors, &mut bound.sets)?;
        for (slot, binding) in layout.slots.iter().zip(&bound.wanted) {
            let info = [vk::DescriptorBufferInfo {
                buffer: binding.buffer,
                offset: binding.offset,
                range: binding.range,
            }];
            let (set, number) = slot.place();
            let write = vk::WriteDescriptorSet::default()
                .dst_set(bound.sets[set as usize])
                .dst_binding(number)
                .descriptor_type(slot.kind())
                .buffer_info(&info);
            // SAFETY: the set was just made with this layout and is not in use; the buffer is live.
            unsafe { self.device.raw.update_descriptor_sets(&[write], &[]) };
        }
        std::mem::swap(&mut bound.now, &mut bound.wanted);
        bound.layout = layout.raw;
        Ok(())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.reset();
        self.arena.destroy(&self.device);
        let vk = &self.device.raw;
        // SAFETY: the commands do not run: whoever drops a batch has waited for it, or the device
        // is lost.
        unsafe {
            self.descriptors.destroy(vk);
            vk.destroy_command_pool(self.pool, None);
        }
    }
}

/// More by-value blocks than this a kernel must not have; `module.rs` refuses it.
pub(crate) const MOST_BLOCKS: usize = 8;

const UNBOUND: Binding =
    Binding { region: u64::MAX, buffer: vk::Buffer::null(), offset: 0, range: vk::WHOLE_SIZE };

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

/// The value of a pointer argument, whose size was checked.
fn address(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_ne_bytes)
}

// SAFETY: the pieces' pointers are into mappings that the batch owns; nobody else writes there.
unsafe impl Send for Batch {}
