//! The driver's objects of a kernel: its layout, and a pipeline for each specialisation.

use crate::device_core::DeviceCore;
use ash::vk;
use longshore_format_spirv::{BlockStorage, Code, Kernel, Specialization};
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// Most bytes of push constants that are used, on any device.
pub(crate) const MOST_PUSH_CONSTANTS: u32 = 256;
/// Most by-value blocks of a kernel; a kernel with more is refused during loading.
pub(crate) const MOST_BLOCKS: usize = 8;

/// The layout of a kernel's arguments.
pub(crate) struct Layout {
    pub(crate) raw: vk::PipelineLayout,
    /// One layout for each set from 0 on; some may be empty.
    pub(crate) sets: Vec<vk::DescriptorSetLayout>,
    /// The descriptors, ordered by set and binding.
    pub(crate) slots: Vec<Slot>,
    /// Alignment of the offset of a by-value block, in bytes.
    pub(crate) block_alignment: u64,
    device: Arc<DeviceCore>,
}

/// A descriptor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// A block that is passed by value.
    Block { place: (u32, u32), index: usize, uniform: bool },
    /// Memory of the program.
    Buffer { place: (u32, u32), index: usize, uniform: bool },
}

impl Slot {
    /// Returns the set and the binding.
    pub(crate) fn place(&self) -> (u32, u32) {
        match *self {
            Slot::Block { place, .. } | Slot::Buffer { place, .. } => place,
        }
    }

    pub(crate) fn is_buffer(&self, wanted: usize) -> bool {
        matches!(*self, Slot::Buffer { index, .. } if index == wanted)
    }

    pub(crate) fn kind(&self) -> vk::DescriptorType {
        match *self {
            Slot::Block { uniform: true, .. } => vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
            Slot::Block { uniform: false, .. } => vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
            Slot::Buffer { uniform: true, .. } => vk::DescriptorType::UNIFORM_BUFFER,
            Slot::Buffer { uniform: false, .. } => vk::DescriptorType::STORAGE_BUFFER,
        }
    }
}

impl Layout {
    /// Creates the layout of a kernel's arguments.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn new(device: &Arc<DeviceCore>, kernel: &Kernel) -> Result<Layout> {
        let limits = &device.physical.limits;
        let mut layout = Layout {
            raw: vk::PipelineLayout::null(),
            sets: Vec::new(),
            slots: slots(kernel),
            block_alignment: limits.storage_alignment.max(limits.uniform_alignment),
            device: Arc::clone(device),
        };
        let sets = layout.slots.iter().map(|slot| slot.place().0 + 1).max().unwrap_or(0);
        for set in 0..sets {
            let bindings: Vec<_> = layout
                .slots
                .iter()
                .filter(|slot| slot.place().0 == set)
                .map(|slot| {
                    vk::DescriptorSetLayoutBinding::default()
                        .binding(slot.place().1)
                        .descriptor_type(slot.kind())
                        .descriptor_count(1)
                        .stage_flags(vk::ShaderStageFlags::COMPUTE)
                })
                .collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            // SAFETY: the device is live.
            let made = unsafe { device.raw.create_descriptor_set_layout(&info, None) };
            layout.sets.push(device.check("making a descriptor set layout", made)?);
        }
        let pushed =
            kernel.blocks.iter().find(|block| block.storage == BlockStorage::PushConstants);
        let ranges = pushed.map(|block| vk::PushConstantRange {
            stage_flags: vk::ShaderStageFlags::COMPUTE,
            offset: 0,
            size: block.bytes,
        });
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&layout.sets)
            .push_constant_ranges(ranges.as_slice());
        // SAFETY: as above; the set layouts are live.
        let made = unsafe { device.raw.create_pipeline_layout(&info, None) };
        layout.raw = device.check("making a pipeline layout", made)?;
        Ok(layout)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        let vk = &self.device.raw;
        // SAFETY: the pipelines and batches that used the layout are dropped or done: kernels are
        // dropped when no queue uses them.
        unsafe {
            vk.destroy_pipeline_layout(self.raw, None);
            for set in &self.sets {
                vk.destroy_descriptor_set_layout(*set, None);
            }
        }
    }
}

/// The pipelines of a kernel. The lookup of a built pipeline takes no lock.
pub(crate) struct Pipelines {
    device: Arc<DeviceCore>,
    first: OnceLock<Box<Node>>,
}

struct Node {
    key: Specialization,
    pipeline: OnceLock<vk::Pipeline>,
    building: Mutex<()>,
    next: OnceLock<Box<Node>>,
}

impl Pipelines {
    pub(crate) fn new(device: &Arc<DeviceCore>) -> Pipelines {
        Pipelines { device: Arc::clone(device), first: OnceLock::new() }
    }

    /// Returns the pipeline for a specialisation, and builds it with `build` if necessary. Several
    /// pipelines can be built at the same time, each of them once.
    ///
    /// # Errors
    /// The errors of `build`, which the next call runs again.
    pub(crate) fn get_or_build(
        &self,
        key: &Specialization,
        build: impl FnOnce() -> Result<vk::Pipeline>,
    ) -> Result<vk::Pipeline> {
        let new = || {
            Box::new(Node {
                key: *key,
                pipeline: OnceLock::new(),
                building: Mutex::new(()),
                next: OnceLock::new(),
            })
        };
        let mut node = self.first.get_or_init(new);
        while node.key != *key {
            node = node.next.get_or_init(new);
        }
        if let Some(pipeline) = node.pipeline.get() {
            return Ok(*pipeline);
        }
        let _building = node.building.lock();
        match node.pipeline.get() {
            Some(pipeline) => Ok(*pipeline),
            None => {
                let built = build()?;
                Ok(*node.pipeline.get_or_init(|| built))
            }
        }
    }
}

impl Drop for Pipelines {
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut node) = next {
            if let Some(pipeline) = node.pipeline.take() {
                // SAFETY: kernels are dropped when no queue uses them.
                unsafe { self.device.raw.destroy_pipeline(pipeline, None) };
            }
            next = node.next.take();
        }
    }
}

/// Compiles an entry point by the driver. Blocks during the compilation.
///
/// # Errors
/// `CompileFailure` if the driver refuses, `OutOfResources`.
pub(crate) fn build(
    device: &DeviceCore,
    kernel: &Kernel,
    layout: &Layout,
    code: &Code<'_>,
) -> Result<vk::Pipeline> {
    let failed = |result: vk::Result| {
        let error = device
            .check::<()>(&format!("building kernel '{}'", kernel.name), Err(result))
            .expect_err("the result is an error");
        match error.code() {
            ErrorCode::BackendFailure if !device.is_lost() => {
                Error::new(ErrorCode::CompileFailure, error.message())
                    .with_vendor(format!("VK_{result:?}"), i64::from(result.as_raw()))
            }
            _ => error,
        }
    };
    let name = CString::new(kernel.name.as_str());
    let name = name.map_err(|_| failed(vk::Result::ERROR_INITIALIZATION_FAILED))?;
    let info = vk::ShaderModuleCreateInfo::default().code(&code.words);
    // SAFETY: the device is live; the words were checked.
    let module = unsafe { device.raw.create_shader_module(&info, None) }.map_err(failed)?;
    let entries: Vec<_> = (0u32..)
        .zip(&code.constants)
        .map(|(index, (id, _))| vk::SpecializationMapEntry {
            constant_id: *id,
            offset: index * 4,
            size: 4,
        })
        .collect();
    let values: Vec<u8> =
        code.constants.iter().flat_map(|(_, value)| value.to_ne_bytes()).collect();
    let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
    let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
    let mut stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(&name)
        .specialization_info(&constants);
    if let Some(size) = device.physical.subgroup_size_to_require(kernel) {
        required = required.required_subgroup_size(size);
        stage = stage.push_next(&mut required);
    }
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout.raw);
    // SAFETY: all objects of the structure are live. Many threads use the cache at the same time,
    // which Vulkan allows.
    let made = unsafe { device.raw.create_compute_pipelines(device.cache, &[info], None) };
    // SAFETY: a shader module is not needed after the creation of its pipeline.
    unsafe { device.raw.destroy_shader_module(module, None) };
    let pipeline = made.map_err(|(_, result)| failed(result))?[0];
    device.name(pipeline, &kernel.name);
    Ok(pipeline)
}

/// Returns the descriptors of a kernel, by set and binding.
pub(crate) fn slots(kernel: &Kernel) -> Vec<Slot> {
    let blocks =
        kernel.blocks.iter().enumerate().filter_map(|(index, block)| match block.storage {
            BlockStorage::PushConstants => None,
            BlockStorage::Uniform { set, binding } => {
                Some(Slot::Block { place: (set, binding), index, uniform: true })
            }
            BlockStorage::Storage { set, binding } => {
                Some(Slot::Block { place: (set, binding), index, uniform: false })
            }
        });
    let buffers = kernel.buffers.iter().enumerate().map(|(index, buffer)| Slot::Buffer {
        place: (buffer.set, buffer.binding),
        index,
        uniform: buffer.uniform,
    });
    let mut slots: Vec<_> = blocks.chain(buffers).collect();
    slots.sort_by_key(Slot::place);
    slots
}
