//! Launches that are recorded without Longshore.

use crate::plain::{Memory, Plain};
use anyhow::{Context, Result};
use ash::vk;

/// The pipelines, and the objects bound for `store`.
pub(crate) struct Kernels {
    empty: vk::Pipeline,
    store: vk::Pipeline,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSet,
    place: Memory,
}

/// Barriers beside launches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barriers {
    None,
    /// Barrier between two launches, as in an in-order queue.
    Between,
    /// Barrier after the last launch, so that the host sees the results.
    ForHost,
}

impl Kernels {
    pub(crate) fn new(plain: &Plain, module: &[u32]) -> Result<Kernels> {
        let vk = &plain.raw;
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let constants =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(4)];
        let code = vk::ShaderModuleCreateInfo::default().code(module);
        // SAFETY: the device and all objects of it are live; the module is valid.
        unsafe {
            let sets = [vk.create_descriptor_set_layout(&info, None)?];
            let info = vk::PipelineLayoutCreateInfo::default()
                .set_layouts(&sets)
                .push_constant_ranges(&constants);
            let layout = vk.create_pipeline_layout(&info, None)?;
            let module = vk.create_shader_module(&code, None)?;
            let stages = [c"empty", c"store"].map(|name| {
                vk::PipelineShaderStageCreateInfo::default()
                    .stage(vk::ShaderStageFlags::COMPUTE)
                    .module(module)
                    .name(name)
            });
            let infos = stages
                .map(|stage| vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout));
            let made = vk.create_compute_pipelines(vk::PipelineCache::null(), &infos, None);
            let pipelines = made.map_err(|(_, result)| result)?;
            let place = place(plain)?;
            let set = bound(plain, &sets, place.buffer)?;
            Ok(Kernels { empty: pipelines[0], store: pipelines[1], layout, set, place })
        }
    }

    /// Records a launch of the empty kernel in a command buffer of its own.
    pub(crate) fn empty_once(
        &self,
        plain: &Plain,
        commands: vk::CommandBuffer,
        barriers: Barriers,
    ) {
        self.empty(plain, commands, true);
        if barriers == Barriers::ForHost {
            let to = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
            barrier(plain, commands, to);
        }
    }

    /// Records the commands before each of many launches.
    pub(crate) fn between(&self, plain: &Plain, commands: vk::CommandBuffer, barriers: Barriers) {
        if barriers == Barriers::Between {
            let access = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
            barrier(plain, commands, (vk::PipelineStageFlags::COMPUTE_SHADER, access));
        }
    }

    /// Records a launch of the empty kernel; `first` says whether it is the first in its command
    /// buffer.
    pub(crate) fn empty(&self, plain: &Plain, commands: vk::CommandBuffer, first: bool) {
        // SAFETY: the command buffer is recording, the pipeline is live.
        unsafe {
            if first {
                let stage = vk::PipelineBindPoint::COMPUTE;
                plain.raw.cmd_bind_pipeline(commands, stage, self.empty);
            }
            plain.raw.cmd_dispatch(commands, 1, 1, 1);
        }
    }

    /// Records a launch of the kernel that stores `number`; the first one in a command buffer
    /// stores 0.
    pub(crate) fn store(&self, plain: &Plain, commands: vk::CommandBuffer, number: u32) {
        let (vk, compute) = (&plain.raw, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the command buffer is recording; pipeline, layout and set are live.
        unsafe {
            if number == 0 {
                vk.cmd_bind_pipeline(commands, compute, self.store);
                vk.cmd_bind_descriptor_sets(commands, compute, self.layout, 0, &[self.set], &[]);
            }
            let (stage, number) = (vk::ShaderStageFlags::COMPUTE, number.to_ne_bytes());
            vk.cmd_push_constants(commands, self.layout, stage, 0, &number);
            vk.cmd_dispatch(commands, 1, 1, 1);
        }
    }

    /// Returns the last stored number. The caller has waited for the launch.
    pub(crate) fn stored(&self) -> u32 {
        // SAFETY: the memory is mapped and nothing writes to it now.
        unsafe { self.place.mapped.cast::<u32>().read_volatile() }
    }
}

fn barrier(
    plain: &Plain,
    commands: vk::CommandBuffer,
    (stage, access): (vk::PipelineStageFlags, vk::AccessFlags),
) {
    let barriers = [vk::MemoryBarrier::default()
        .src_access_mask(vk::AccessFlags::SHADER_WRITE)
        .dst_access_mask(access)];
    let (from, none) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::DependencyFlags::empty());
    // SAFETY: the command buffer is recording.
    unsafe { plain.raw.cmd_pipeline_barrier(commands, from, stage, none, &barriers, &[], &[]) };
}

/// Allocates memory that host and device reach.
fn place(plain: &Plain) -> Result<Memory> {
    use vk::MemoryPropertyFlags as Flags;
    let kind = plain.memory_type(Flags::HOST_VISIBLE | Flags::HOST_COHERENT);
    plain.memory(kind.context("the host reaches no memory")?, 4)
}

/// Returns a descriptor set with the buffer.
///
/// # Safety
/// The layout has one storage buffer, and the buffer is live.
unsafe fn bound(
    plain: &Plain,
    layouts: &[vk::DescriptorSetLayout],
    buffer: vk::Buffer,
) -> Result<vk::DescriptorSet> {
    let kind = vk::DescriptorType::STORAGE_BUFFER;
    let sizes = [vk::DescriptorPoolSize { ty: kind, descriptor_count: 1 }];
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
    let buffers = [vk::DescriptorBufferInfo { buffer, offset: 0, range: vk::WHOLE_SIZE }];
    // SAFETY: the device is live, the rest is promised by the caller.
    unsafe {
        let pool = plain.raw.create_descriptor_pool(&info, None)?;
        let info =
            vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(layouts);
        let set = plain.raw.allocate_descriptor_sets(&info)?[0];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(kind)
            .buffer_info(&buffers);
        plain.raw.update_descriptor_sets(&[write], &[]);
        Ok(set)
    }
}
