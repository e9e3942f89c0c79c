//! Entry points of modules, and the checks of their launches.

use crate::device_core::DeviceCore;
use crate::error::fault;
use crate::globals::Globals;
use crate::physical::Limits;
use crate::pipeline::{self, Layout, MOST_BLOCKS, Pipelines};
use ash::vk;
use longshore_format_spirv::{
    BlockStorage, GroupSize, Kernel, Module, NumberKind, Parameter, SharedMemory, Specialization,
    SubgroupSize,
};
use longshore_plugin_api::{
    ArgumentKind, ArgumentType, Arguments, Error, ErrorCode, KernelAttributes, LaunchShape, Result,
};
use std::sync::Arc;

/// An entry point of a module.
pub struct VulkanKernel {
    core: KernelCore,
    code: Arc<Module>,
    pipelines: Pipelines,
    device: Arc<DeviceCore>,
}

/// The facts about a kernel that a launch needs.
pub(crate) struct KernelCore {
    pub(crate) shape: Kernel,
    pub(crate) layout: Layout,
    /// Device address of the module's globals, 0 if it has none.
    pub(crate) globals_address: u64,
}

impl VulkanKernel {
    pub(crate) fn new(
        device: &Arc<DeviceCore>,
        code: &Arc<Module>,
        shape: &Kernel,
        globals: Option<&Globals>,
    ) -> Result<VulkanKernel> {
        check_limits(device, shape)?;
        Ok(VulkanKernel {
            core: KernelCore {
                shape: shape.clone(),
                layout: Layout::new(device, shape)?,
                globals_address: globals.map_or(0, |globals| globals.region.device_address),
            },
            code: Arc::clone(code),
            pipelines: Pipelines::new(device),
            device: Arc::clone(device),
        })
    }

    /// Returns the kernel, if it is loaded on this device.
    ///
    /// # Errors
    /// `InvalidDevice` for a kernel of another device.
    pub(crate) fn on(&self, device: &Arc<DeviceCore>) -> Result<&VulkanKernel> {
        if Arc::ptr_eq(&self.device, device) {
            return Ok(self);
        }
        let (name, ours) = (&self.core.shape.name, &self.device.physical.name);
        let message = format!("kernel '{name}' is loaded on another device, '{ours}'");
        Err(Error::new(ErrorCode::InvalidDevice, message))
    }

    pub(crate) fn core(&self) -> &KernelCore {
        &self.core
    }

    /// Checks a launch and returns its pipeline.
    ///
    /// # Errors
    /// `InvalidArgument` for a shape or arguments that the kernel or the device does not support,
    /// `Unsupported` for a cooperative launch, and errors of building a pipeline.
    pub(crate) fn pipeline_for(
        &self,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<vk::Pipeline> {
        self.check_shape(shape)?;
        self.check_arguments(arguments)?;
        self.pipeline(&Specialization {
            group: shape.items,
            dynamic_shared_bytes: shape.dynamic_shared_bytes as u32,
            subgroup_size: self.subgroup_size(),
        })
    }

    /// Returns a good number of items of a group, also for dynamic shared memory that the kernel
    /// does not use.
    ///
    /// # Errors
    /// `InvalidArgument` for more shared memory than a group can have.
    pub(crate) fn optimal_group_items(&self, dynamic_shared_bytes: u64) -> Result<u32> {
        const USUAL: u32 = 256;
        let limits = &self.device.physical.limits;
        self.check_shared_limit(dynamic_shared_bytes)?;
        let fixed = |size: &GroupSize| matches!(size, GroupSize::Fixed(_));
        if self.core.shape.group.iter().all(fixed) {
            return Ok(self.own_size().group.iter().product());
        }
        let most = USUAL.min(limits.group_items).min(limits.items[0]);
        let whole = most / limits.subgroup_size.max(1) * limits.subgroup_size;
        Ok(if whole == 0 { most } else { whole })
    }

    pub(crate) fn pipeline(&self, wanted: &Specialization) -> Result<vk::Pipeline> {
        self.pipelines.get_or_build(wanted, || {
            let code = self.code.code(&self.core.shape, wanted).map_err(fault)?;
            self.check_shared_memory(code.shared)?;
            pipeline::build(&self.device, &self.core.shape, &self.core.layout, &code)
        })
    }

    /// Returns whether all launches use the same specialisation.
    pub(crate) fn is_fixed(&self) -> bool {
        let shape = &self.core.shape;
        shape.group.iter().all(|size| matches!(size, GroupSize::Fixed(_))) && !shape.dynamic_shared
    }

    /// Returns the specialisation with the module's own values.
    pub(crate) fn own_size(&self) -> Specialization {
        let own = |size: GroupSize| match size {
            GroupSize::Fixed(items) | GroupSize::Free(items) => items,
        };
        Specialization {
            group: self.core.shape.group.map(own),
            dynamic_shared_bytes: 0,
            subgroup_size: self.subgroup_size(),
        }
    }

    fn subgroup_size(&self) -> u32 {
        match self.core.shape.subgroup_size {
            SubgroupSize::Required(size) => size,
            SubgroupSize::Any | SubgroupSize::Usual => self.device.physical.limits.subgroup_size,
        }
    }

    pub(crate) fn attributes(&self) -> KernelAttributes {
        let shape = &self.core.shape;
        let required = shape.group.map(|size| match size {
            GroupSize::Fixed(items) => items,
            GroupSize::Free(_) => 0,
        });
        let mut attributes = KernelAttributes::default();
        attributes.argument_sizes = Some(shape.parameters.iter().map(|one| one.bytes).collect());
        attributes.argument_types = shape.parameters.iter().map(argument_type).collect();
        attributes.max_group_items = self.device.physical.limits.group_items;
        attributes.static_shared_bytes = shape.static_shared_bytes.into();
        attributes.required_group = required;
        attributes
    }

    fn refuse(&self, code: ErrorCode, what: String) -> Result<()> {
        Err(Error::new(code, format!("kernel '{}': {what}", self.core.shape.name)))
    }

    #[inline]
    fn check_shape(&self, shape: &LaunchShape) -> Result<()> {
        shape.refuse_clusters()?;
        shape.refuse_words()?;
        let limits = &self.device.physical.limits;
        let (groups, items) = (shape.groups, shape.items);
        for axis in 0..3 {
            let name = ["x", "y", "z"][axis];
            if groups[axis] == 0 || items[axis] == 0 {
                let what = format!("no groups or no items in {name}, expected at least 1");
                return self.refuse(ErrorCode::InvalidArgument, what);
            }
            if groups[axis] > limits.groups[axis] {
                let (asked, most) = (groups[axis], limits.groups[axis]);
                let what = format!("{asked} groups in {name}, expected at most {most}");
                return self.refuse(ErrorCode::InvalidArgument, what);
            }
            if let GroupSize::Fixed(own) = self.core.shape.group[axis]
                && own != items[axis]
            {
                return self.refuse_size(items);
            }
        }
        if let Some(what) = too_large(limits, items).or_else(|| self.too_many_subgroups(items)) {
            return self.refuse(ErrorCode::InvalidArgument, what);
        }
        if shape.cooperative {
            let what =
                "a cooperative launch: Vulkan does not promise that groups run at the same time";
            return self.refuse(ErrorCode::Unsupported, what.to_owned());
        }
        self.check_shared(shape.dynamic_shared_bytes)
    }

    /// Returns an error message if groups of this size have too many sub-groups of the size that
    /// the pipeline requires.
    fn too_many_subgroups(&self, items: [u32; 3]) -> Option<String> {
        let physical = &self.device.physical;
        let size = physical.subgroup_size_to_require(&self.core.shape)?;
        let most = u64::from(size) * u64::from(physical.limits.group_subgroups);
        let all: u64 = items.iter().map(|items| u64::from(*items)).product();
        (all > most).then(|| {
            format!("groups of {items:?} items, expected at most {most} in sub-groups of {size}")
        })
    }

    #[cold]
    fn refuse_size(&self, items: [u32; 3]) -> Result<()> {
        let own = self.own_size().group;
        let free = self.core.shape.group.map(|size| matches!(size, GroupSize::Free(_)));
        let mut what = format!(
            "groups of {items:?} items, but the module fixes the size of its groups at {own:?}"
        );
        if free.contains(&true) {
            let names = ["x", "y", "z"];
            let free: Vec<_> = (0..3).filter(|axis| free[*axis]).map(|axis| names[axis]).collect();
            what = format!("{what}, except in {}", free.join(" and "));
        }
        let what = format!("{what}; launch it so, or make the size a specialisation constant");
        self.refuse(ErrorCode::InvalidArgument, what)
    }

    fn check_shared(&self, dynamic: u64) -> Result<()> {
        let shape = &self.core.shape;
        if dynamic > 0 && !shape.dynamic_shared {
            let what = format!(
                "{dynamic} bytes of dynamic shared memory, but it has none: no specialisation \
                 constant is named longshore_dynamic_shared_bytes"
            );
            return self.refuse(ErrorCode::InvalidArgument, what);
        }
        self.check_shared_limit(dynamic)
    }

    fn check_shared_limit(&self, dynamic: u64) -> Result<()> {
        let most = self.device.physical.limits.shared_bytes;
        let fixed = self.core.shape.static_shared_bytes;
        if dynamic.saturating_add(fixed.into()) > most.into() {
            let what = format!(
                "{dynamic} bytes of dynamic shared memory and {fixed} of its own, expected at most \
                 {most} together"
            );
            return self.refuse(ErrorCode::InvalidArgument, what);
        }
        Ok(())
    }

    /// Checks the sizes of the kernel's shared arrays in a launch, which may differ from the
    /// requested bytes.
    fn check_shared_memory(&self, shared: SharedMemory) -> Result<()> {
        let most = self.device.physical.limits.shared_bytes;
        if shared.has_empty_array {
            let what = "an array of shared memory would have no elements; its length comes from the \
                        launch, most likely from its dynamic shared memory";
            return self.refuse(ErrorCode::InvalidArgument, what.to_owned());
        }
        if shared.bytes > most.into() {
            let bytes = shared.bytes;
            let what =
                format!("{bytes} bytes of shared memory with this launch, expected at most {most}");
            return self.refuse(ErrorCode::InvalidArgument, what);
        }
        Ok(())
    }

    #[inline]
    fn check_arguments(&self, arguments: Arguments<'_>) -> Result<()> {
        let parameters = &self.core.shape.parameters;
        if arguments.len() != parameters.len() {
            let (given, expected) = (arguments.len(), parameters.len());
            let what = format!("{given} arguments, expected {expected}");
            return self.refuse(ErrorCode::InvalidArgument, what);
        }
        let mut pairs = parameters.iter().zip(arguments.values()).enumerate();
        match pairs.find(|(_, (parameter, value))| parameter.bytes as usize != value.len()) {
            None => Ok(()),
            Some((index, (parameter, value))) => {
                let (name, expected) = (&parameter.name, parameter.bytes);
                let given = value.len();
                let what =
                    format!("argument {index} '{name}' has {given} bytes, expected {expected}");
                self.refuse(ErrorCode::InvalidArgument, what)
            }
        }
    }
}

/// Limit of binding numbers: drivers keep a table as long as the highest binding of a set.
const MOST_BINDINGS: u32 = 4096;

/// Refuses kernels that the device cannot run with any launch.
fn check_limits(device: &DeviceCore, kernel: &Kernel) -> Result<()> {
    let limits = &device.physical.limits;
    let refuse = |what: String| {
        let (name, device) = (&kernel.name, &device.physical.name);
        let message = format!("kernel '{name}': {what} on '{device}'");
        Err(Error::new(ErrorCode::Unsupported, message))
    };
    let fixed = kernel.group.map(|size| match size {
        GroupSize::Fixed(items) => items,
        GroupSize::Free(_) => 1,
    });
    refuse_too_large(device, kernel, fixed)?;
    if kernel.static_shared_bytes > limits.shared_bytes {
        let (own, most) = (kernel.static_shared_bytes, limits.shared_bytes);
        return refuse(format!("{own} bytes of shared memory, expected at most {most}"));
    }
    if kernel.blocks.len() > MOST_BLOCKS {
        let count = kernel.blocks.len();
        return refuse(format!("{count} blocks by value, expected at most {MOST_BLOCKS}"));
    }
    check_bindings(device, kernel).or_else(refuse)?;
    check_ranges(limits, kernel).or_else(refuse)?;
    let (least, most) = limits.subgroup_sizes;
    let fits = |size: u32| {
        size == limits.subgroup_size
            || (device.physical.can_require_subgroup_size()
                && size.is_power_of_two()
                && (least..=most).contains(&size))
    };
    if let SubgroupSize::Required(size) = kernel.subgroup_size
        && !fits(size)
    {
        return refuse(format!(
            "sub-groups of {size} items, expected {} (subgroupSizeControl: {least} to {most})",
            limits.subgroup_size
        ));
    }
    Ok(())
}

/// # Errors
/// `Unsupported` if the device does not support groups of this size.
pub(crate) fn refuse_too_large(
    device: &DeviceCore,
    kernel: &Kernel,
    items: [u32; 3],
) -> Result<()> {
    let Some(what) = too_large(&device.physical.limits, items) else { return Ok(()) };
    let (name, device) = (&kernel.name, &device.physical.name);
    Err(Error::new(ErrorCode::Unsupported, format!("kernel '{name}': {what} on '{device}'")))
}

/// Returns an error message if the device does not support groups of this size.
fn too_large(limits: &Limits, items: [u32; 3]) -> Option<String> {
    for ((name, asked), most) in ["x", "y", "z"].into_iter().zip(items).zip(limits.items) {
        if asked > most {
            return Some(format!("{asked} items of a group in {name}, expected at most {most}"));
        }
    }
    let (most, all) = (limits.group_items, items.iter().map(|items| u128::from(*items)).product());
    (!(1..=u128::from(most)).contains(&all))
        .then(|| format!("groups of {items:?} items, expected 1 to {most} in all"))
}

/// Checks the sizes of a kernel's bindings; the error describes the first too large one.
fn check_ranges(limits: &Limits, kernel: &Kernel) -> Result<(), String> {
    let most = |uniform: bool| match uniform {
        true => limits.uniform_range,
        false => limits.storage_range,
    };
    let bound = kernel.buffers.iter().map(|buffer| {
        ((buffer.set, buffer.binding), u64::from(buffer.least_bytes), most(buffer.uniform))
    });
    let by_value = kernel.blocks.iter().filter_map(|block| match block.storage {
        BlockStorage::PushConstants => None,
        BlockStorage::Uniform { set, binding } => {
            Some(((set, binding), block.bytes.into(), most(true)))
        }
        BlockStorage::Storage { set, binding } => {
            Some(((set, binding), block.bytes.into(), most(false)))
        }
    });
    match bound.chain(by_value).find(|(_, bytes, most)| bytes > most) {
        None => Ok(()),
        Some(((set, binding), bytes, most)) => Err(format!(
            "a buffer of at least {bytes} bytes in set {set}, binding {binding}; at most {most} can be \
             bound"
        )),
    }
}

/// Checks the numbers of a kernel's bindings; the error describes the first too large one.
fn check_bindings(device: &DeviceCore, kernel: &Kernel) -> Result<(), String> {
    let limits = &device.physical.properties.limits;
    let slots = pipeline::slots(kernel);
    let count = |wanted: &[vk::DescriptorType]| {
        slots.iter().filter(|slot| wanted.contains(&slot.kind())).count() as u32
    };
    use vk::DescriptorType as Kind;
    let storage = count(&[Kind::STORAGE_BUFFER, Kind::STORAGE_BUFFER_DYNAMIC]);
    let uniform = count(&[Kind::UNIFORM_BUFFER, Kind::UNIFORM_BUFFER_DYNAMIC]);
    let place = |pick: fn((u32, u32)) -> u32| slots.iter().map(|slot| pick(slot.place())).max();
    let sets = place(|(set, _)| set).map_or(0, |set| set.saturating_add(1));
    let bindings = place(|(_, binding)| binding).map_or(0, |binding| binding.saturating_add(1));
    let storage_most = limits.max_per_stage_descriptor_storage_buffers;
    let uniform_most = limits.max_per_stage_descriptor_uniform_buffers;
    let dynamic_most = limits.max_descriptor_set_uniform_buffers_dynamic;
    let checks = [
        ("descriptor sets", sets, limits.max_bound_descriptor_sets),
        ("binding numbers", bindings, MOST_BINDINGS),
        ("storage buffers", storage, storage_most.min(limits.max_descriptor_set_storage_buffers)),
        ("uniform buffers", uniform, uniform_most.min(limits.max_descriptor_set_uniform_buffers)),
        ("uniform buffers by value", count(&[Kind::UNIFORM_BUFFER_DYNAMIC]), dynamic_most),
        ("buffers in all", storage.saturating_add(uniform), limits.max_per_stage_resources),
    ];
    match checks.into_iter().find(|(_, count, most)| count > most) {
        None => Ok(()),
        Some((what, count, most)) => Err(format!("{count} {what}, expected at most {most}")),
    }
}
/// Returns the type of an argument. A kernel may convert a 64-bit number to a pointer, and may
/// interpret a buffer freely.
fn argument_type(parameter: &Parameter) -> ArgumentType {
    match (parameter.pointer, parameter.number) {
        (true, _) => ArgumentType::new(ArgumentKind::Pointer),
        (false, Some(NumberKind::Float)) => ArgumentType::new(ArgumentKind::Float),
        (false, Some(NumberKind::Integer)) if parameter.bytes < 8 => {
            ArgumentType::new(ArgumentKind::Unsigned)
        }
        (false, _) => ArgumentType::UNKNOWN,
    }
}
