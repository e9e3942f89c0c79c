//! Loaded images.

use crate::batch::{MOST_BLOCKS, MOST_PUSH_CONSTANTS};
use crate::device::DeviceCore;
use crate::memory::{Found, Region};
use crate::physical::Limits;
use crate::pipeline::{self, Layout, Pipelines};
use crate::transfer::{CopyJob, End};
use crate::{VulkanBackend, VulkanQueue};
use ash::vk;
use longshore_plugin_api::{
    Arguments, Error, ErrorCode, GlobalAddress, KernelAttributes, LaunchShape, PoolTracker,
    ProfileSection, ProfileSectionKind, Queue as _, Result, SymbolKind,
};
use longshore_spirv::{Fault, FaultKind, Format, GroupSize, Kernel, Module, Specialization};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A SPIR-V module or WGSL source on a device; see `docs/vulkan-images.md`.
///
/// LLVM: `ol_program_handle_t`.
pub struct VulkanModule {
    code: Arc<Module>,
    kernels: BTreeMap<String, Arc<VulkanKernel>>,
    constructors: Vec<VulkanKernel>,
    destructors: Vec<VulkanKernel>,
    globals: Option<Globals>,
    device: Arc<DeviceCore>,
}

/// An entry point of a module.
pub struct VulkanKernel {
    core: KernelCore,
    code: Arc<Module>,
    pipelines: Pipelines,
    device: Arc<DeviceCore>,
}

/// What a launch needs to know of a kernel.
pub(crate) struct KernelCore {
    pub(crate) shape: Kernel,
    pub(crate) layout: Layout,
    /// Device address of the module's globals, 0 if it has none.
    pub(crate) globals_address: u64,
}

/// The block of a module's globals.
struct Globals {
    region: Arc<Region>,
    device: Arc<DeviceCore>,
}

/// Globals are zeroed by so many bytes at a time.
const ZEROS_BYTES: u32 = 1 << 20;
/// Drivers keep a table as long as the highest number of a binding.
const MOST_BINDINGS: u32 = 4096;

/// Why a device would not load an image; nothing if it would try. That source does not compile, or
/// that something is not defined, is no matter of the device: loading says so.
pub(crate) fn refusal(device: &DeviceCore, image: &[u8]) -> Option<String> {
    if Module::recognise(image).is_none() {
        return Some("neither SPIR-V nor WGSL".to_owned());
    }
    match parse(device, image) {
        Ok(module) => device.physical.features.lacking(&module.requirements()),
        Err(error) if error.code() == ErrorCode::CompileFailure => None,
        Err(error) if error.code() == ErrorCode::LinkFailure => None,
        Err(error) => Some(error.message().to_owned()),
    }
}

impl VulkanModule {
    /// Checks an image and makes what does not depend on a launch. Pipelines of kernels whose size is
    /// fixed are built now, on as many threads as there are processors.
    ///
    /// # Errors
    /// See `docs/vulkan-images.md`.
    pub(crate) fn load(device: &Arc<DeviceCore>, image: &[u8]) -> Result<VulkanModule> {
        let code = parse(device, image)?;
        if let Some(lacking) = device.physical.features.lacking(&code.requirements()) {
            return Err(Error::new(ErrorCode::Unsupported, lacking));
        }
        if code.format() == Format::Spirv {
            let version = device.physical.version;
            let vulkan = (vk::api_version_major(version), vk::api_version_minor(version));
            code.validate(vulkan).map_err(fault)?;
        }
        let globals = Globals::allocate(device, code.globals_bytes())?;
        let code = Arc::new(code);
        let make = |shape: &Kernel| VulkanKernel::new(device, &code, shape, globals.as_ref());
        let kernels = code.kernels().iter();
        let kernels = kernels.map(|shape| Ok((shape.name.clone(), Arc::new(make(shape)?))));
        let procedures = |list: &[longshore_spirv::Procedure]| {
            let procedures = list.iter().map(|procedure| {
                let kernel = make(&procedure.kernel)?;
                refuse_too_large(device, &procedure.kernel, kernel.own_size().group)?;
                Ok(kernel)
            });
            procedures.collect::<Result<Vec<_>>>()
        };
        let module = VulkanModule {
            kernels: kernels.collect::<Result<_>>()?,
            constructors: procedures(code.constructors())?,
            destructors: procedures(code.destructors())?,
            device: Arc::clone(device),
            globals,
            code,
        };
        module.build_pipelines()?;
        Ok(module)
    }

    /// Builds the pipelines for which no launch has to choose anything.
    fn build_pipelines(&self) -> Result<()> {
        let procedures = self.constructors.iter().chain(&self.destructors);
        let kernels = self.kernels.values().map(|kernel| &**kernel);
        let fixed: Vec<_> = kernels
            .filter(|kernel| kernel.is_fixed())
            .chain(procedures)
            .map(|kernel| (kernel, kernel.own_size()))
            .collect();
        in_parallel(&fixed, |(kernel, wanted)| kernel.pipeline(wanted).map(drop))
    }

    /// Runs one constructor or destructor and looks what it says.
    fn run(&self, kernel: &VulkanKernel, queue: &VulkanQueue, status: &str) -> Result<()> {
        let shape = LaunchShape {
            groups: [1; 3],
            items: kernel.own_size().group,
            dynamic_shared_bytes: 0,
            cooperative: false,
            wait: true,
        };
        // SAFETY: there are no arguments; what the kernel does is up to the image.
        let none = unsafe { Arguments::from_raw(std::ptr::null(), std::ptr::null(), 0) };
        queue.launch(kernel, &shape, none)?;
        match self.read_word(status)? {
            None | Some(0) => Ok(()),
            Some(code) => {
                let name = &kernel.core.shape.name;
                let message = format!("'{name}' failed: it left {code} in '{status}'");
                Err(Error::new(ErrorCode::BackendFailure, message))
            }
        }
    }

    fn read_word(&self, name: &str) -> Result<Option<u32>> {
        let Some(bytes) = self.read_global(name)? else { return Ok(None) };
        Ok(bytes.1.first_chunk().map(|word| u32::from_le_bytes(*word)))
    }

    /// Address and contents of a global, found by its name without leading underscores.
    fn read_global(&self, name: &str) -> Result<Option<(u64, Vec<u8>)>> {
        let plain = |name: &str| name.trim_start_matches('_').to_owned();
        let wanted = plain(name);
        let member = self.code.globals().iter().find(|member| plain(&member.name) == wanted);
        let (Some(member), Some(globals)) = (member, &self.globals) else { return Ok(None) };
        let bytes = globals.read(member.offset.into(), member.bytes.into())?;
        Ok(Some((globals.region.address + u64::from(member.offset), bytes)))
    }
}

impl longshore_plugin_api::Module<VulkanBackend> for VulkanModule {
    fn kernel(&self, name: &str) -> Result<(Arc<VulkanKernel>, KernelAttributes)> {
        if let Some(kernel) = self.kernels.get(name) {
            return Ok((Arc::clone(kernel), kernel.attributes()));
        }
        let code = match self.code.globals().iter().any(|member| member.name == name) {
            true => return Err(wrong_kind(name, "a global", "kernel")),
            false => ErrorCode::NotFound,
        };
        Err(Error::new(code, format!("the image has no kernel '{name}'")))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        let member = self.code.globals().iter().find(|member| member.name == name);
        if let (Some(member), Some(globals)) = (member, &self.globals) {
            let address = globals.region.address + u64::from(member.offset);
            return Ok(GlobalAddress { address, bytes: member.bytes.into() });
        }
        if self.kernels.contains_key(name) {
            return Err(wrong_kind(name, "a kernel", "global"));
        }
        Err(Error::new(ErrorCode::NotFound, format!("the image has no global '{name}'")))
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let kernels = self.kernels.keys().map(|name| (name.clone(), SymbolKind::Kernel));
        let globals = self.code.globals().iter();
        let globals = globals.map(|member| (member.name.clone(), SymbolKind::Global));
        Ok(kernels.chain(globals).collect())
    }

    /// Runs them one after the other, until one fails.
    fn run_constructors(&self) -> Result<()> {
        if self.constructors.is_empty() {
            return Ok(());
        }
        let queue = VulkanQueue::new(&self.device)?;
        let status = "longshore_constructor_status";
        self.constructors.iter().try_for_each(|kernel| self.run(kernel, &queue, status))
    }

    fn run_destructors(&self) -> Result<()> {
        if self.destructors.is_empty() {
            return Ok(());
        }
        let queue = VulkanQueue::new(&self.device)?;
        let status = "longshore_destructor_status";
        let mut first = Ok(());
        for kernel in &self.destructors {
            first = first.and(self.run(kernel, &queue, status));
        }
        first
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        let found = self.read_global("__omp_rtl_device_memory_pool_tracker")?;
        let Some((_, bytes)) = found else { return Ok(None) };
        let (numbers, _) = bytes.as_chunks::<8>();
        let [allocations, total, least, most, ..] = numbers else {
            let message = format!("the memory-pool tracker has {} bytes, expected 32", bytes.len());
            return Err(Error::new(ErrorCode::InvalidBinary, message));
        };
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        Ok(Some(PoolTracker {
            allocations: number(allocations),
            total_bytes: number(total),
            min_bytes: number(least),
            max_bytes: number(most),
        }))
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        const SECTIONS: [(ProfileSectionKind, &str); 5] = [
            (ProfileSectionKind::Counters, "__llvm_prf_cnts"),
            (ProfileSectionKind::Data, "__llvm_prf_data"),
            (ProfileSectionKind::Names, "__llvm_prf_names"),
            (ProfileSectionKind::Bitmap, "__llvm_prf_bits"),
            (ProfileSectionKind::RawVersion, "__llvm_profile_raw_version"),
        ];
        let mut sections = Vec::new();
        for (kind, name) in SECTIONS {
            if let Some((address, contents)) = self.read_global(name)? {
                sections.push(ProfileSection { kind, address, contents });
            }
        }
        Ok(sections)
    }
}

impl VulkanKernel {
    fn new(
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

    /// The kernel, for a queue of a device.
    ///
    /// # Errors
    /// `InvalidDevice` if it is of another one.
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

    /// Checks a launch and answers the pipeline for it.
    ///
    /// # Errors
    /// `InvalidArgument` for a shape or arguments that the kernel or the device cannot have,
    /// `Unsupported` for a cooperative launch; those of building a pipeline.
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

    /// A good number of items in a group.
    pub(crate) fn optimal_group_items(&self, dynamic_shared_bytes: u64) -> Result<u32> {
        const USUAL: u32 = 256;
        let limits = &self.device.physical.limits;
        self.check_shared(dynamic_shared_bytes)?;
        let fixed = |size: &GroupSize| matches!(size, GroupSize::Fixed(_));
        if self.core.shape.group.iter().all(fixed) {
            return Ok(self.own_size().group.iter().product());
        }
        let most = USUAL.min(limits.group_items).min(limits.items[0]);
        let whole = most / limits.subgroup_size.max(1) * limits.subgroup_size;
        Ok(if whole == 0 { most } else { whole })
    }

    fn pipeline(&self, wanted: &Specialization) -> Result<vk::Pipeline> {
        self.pipelines.get_or_build(wanted, || {
            let code = self.code.code(&self.core.shape, wanted).map_err(fault)?;
            pipeline::build(&self.device, &self.core.shape, &self.core.layout, &code)
        })
    }

    /// Whether no launch has a choice.
    fn is_fixed(&self) -> bool {
        let shape = &self.core.shape;
        shape.group.iter().all(|size| matches!(size, GroupSize::Fixed(_))) && !shape.dynamic_shared
    }

    /// The specialisation that the module itself names.
    fn own_size(&self) -> Specialization {
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
        self.core.shape.subgroup_size.unwrap_or(self.device.physical.limits.subgroup_size)
    }

    fn attributes(&self) -> KernelAttributes {
        let shape = &self.core.shape;
        let required = shape.group.map(|size| match size {
            GroupSize::Fixed(items) => items,
            GroupSize::Free(_) => 0,
        });
        KernelAttributes {
            argument_sizes: Some(shape.parameters.iter().map(|one| one.bytes).collect()),
            max_group_items: self.device.physical.limits.group_items,
            static_shared_bytes: shape.static_shared_bytes.into(),
            required_group: required,
            ..KernelAttributes::default()
        }
    }

    fn refuse(&self, code: ErrorCode, what: String) -> Result<()> {
        Err(Error::new(code, format!("kernel '{}': {what}", self.core.shape.name)))
    }

    #[inline]
    fn check_shape(&self, shape: &LaunchShape) -> Result<()> {
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

    /// Why groups cannot have so many items in sub-groups of the size that it requires, if so.
    fn too_many_subgroups(&self, items: [u32; 3]) -> Option<String> {
        let physical = &self.device.physical;
        let size = self.core.shape.subgroup_size?;
        let most = u64::from(size) * u64::from(physical.limits.group_subgroups);
        let all: u64 = items.iter().map(|items| u64::from(*items)).product();
        (physical.can_require_subgroup_size() && all > most).then(|| {
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
        let most = self.device.physical.limits.shared_bytes;
        let fixed = shape.static_shared_bytes;
        if dynamic.saturating_add(fixed.into()) > most.into() {
            let what = format!(
                "{dynamic} bytes of dynamic shared memory and {fixed} of its own, expected at most \
                 {most} together"
            );
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

impl Globals {
    /// Zeroed memory, unless there are no globals. Blocks.
    fn allocate(device: &Arc<DeviceCore>, bytes: u32) -> Result<Option<Globals>> {
        if bytes == 0 {
            return Ok(None);
        }
        let region = device.memory.internal_found(device, bytes.into())?;
        let globals = Globals { region, device: Arc::clone(device) };
        // The image says how many there are: not all of them at once.
        let zeros = vec![0u8; bytes.min(ZEROS_BYTES) as usize];
        for start in (0..bytes).step_by(ZEROS_BYTES as usize) {
            let to = End::Device(globals.found(start.into()));
            let part = (bytes - start).min(ZEROS_BYTES);
            globals.copy(to, End::Host(zeros.as_ptr() as u64), part.into())?;
        }
        Ok(Some(globals))
    }

    /// What is there now. Blocks.
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut contents = vec![0u8; bytes as usize];
        if bytes > 0 {
            let from = End::Device(self.found(offset));
            self.copy(End::Host(contents.as_mut_ptr() as u64), from, bytes)?;
        }
        Ok(contents)
    }

    fn found(&self, offset: u64) -> Found {
        Found { region: Arc::clone(&self.region), offset }
    }

    fn copy(&self, to: End, from: End, bytes: u64) -> Result<()> {
        CopyJob { device: Arc::clone(&self.device), to, from, bytes }.run()
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        self.device.memory.withdraw(&self.region);
    }
}

fn parse(device: &DeviceCore, image: &[u8]) -> Result<Module> {
    let most = device.physical.limits.push_constant_bytes.min(MOST_PUSH_CONSTANTS);
    Module::parse(image, most).map_err(fault)
}

#[cold]
fn fault(fault: Fault) -> Error {
    let code = match fault.kind {
        FaultKind::Malformed => ErrorCode::InvalidBinary,
        FaultKind::Source => ErrorCode::CompileFailure,
        FaultKind::Undefined => ErrorCode::LinkFailure,
        FaultKind::Unsupported => ErrorCode::Unsupported,
    };
    Error::new(code, fault.message)
}

#[cold]
fn wrong_kind(name: &str, found: &str, expected: &str) -> Error {
    let message = format!("'{name}' is {found} of the image, expected a {expected}");
    Error::new(ErrorCode::SymbolKind, message)
}

/// What a device could not run whatever the launch.
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
        return refuse(format!("{own} bytes of shared memory, at most {most} can be had"));
    }
    if kernel.blocks.len() > MOST_BLOCKS {
        let count = kernel.blocks.len();
        return refuse(format!("{count} blocks by value, at most {MOST_BLOCKS} can be had"));
    }
    check_bindings(device, kernel).or_else(refuse)?;
    let (least, most) = limits.subgroup_sizes;
    let fits = |size: u32| {
        size == limits.subgroup_size
            || (device.physical.can_require_subgroup_size()
                && size.is_power_of_two()
                && (least..=most).contains(&size))
    };
    if let Some(size) = kernel.subgroup_size.filter(|size| !fits(*size)) {
        return refuse(format!(
            "sub-groups of {size} items, expected {} (subgroupSizeControl: {least} to {most})",
            limits.subgroup_size
        ));
    }
    Ok(())
}

/// # Errors
/// `Unsupported` if the device has no groups of such a size.
fn refuse_too_large(device: &DeviceCore, kernel: &Kernel, items: [u32; 3]) -> Result<()> {
    let Some(what) = too_large(&device.physical.limits, items) else { return Ok(()) };
    let (name, device) = (&kernel.name, &device.physical.name);
    Err(Error::new(ErrorCode::Unsupported, format!("kernel '{name}': {what} on '{device}'")))
}

/// Why a group cannot have so many items, if it cannot.
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

/// How much a kernel binds; the error says what is too much.
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
        Some((what, count, most)) => Err(format!("{count} {what}, at most {most} can be had")),
    }
}

/// Does something for each item, on as many threads as there are processors; the first failure.
fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let threads = processors.min(items.len());
    if threads <= 1 {
        return items.iter().try_for_each(work);
    }
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        // Without more threads the work is done all the same.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, take).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let ours = take();
        let theirs = others.into_iter().map(|other| {
            other.join().unwrap_or_else(|payload| Err(Error::of_panic("building kernels", payload)))
        });
        theirs.fold(ours, |first, result| first.and(result))
    })
}
