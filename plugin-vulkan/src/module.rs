//! Loaded images.

use crate::device_core::DeviceCore;
use crate::error::fault;
use crate::globals::Globals;
use crate::kernel::{VulkanKernel, refuse_too_large};
use crate::pipeline::MOST_PUSH_CONSTANTS;
use crate::{VulkanBackend, VulkanQueue};
use ash::vk;
use longshore_format_spirv::{Format, Kernel, Module, Target};
use longshore_plugin_api::{
    Acceptance, Arguments, Error, ErrorCode, GlobalAddress, KernelAttributes, LaunchShape,
    PoolTracker, ProfileSection, ProfileSectionKind, Queue as _, Result, SymbolKind,
};
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

/// Returns whether a device can try to load an image. Source that does not compile and undefined
/// symbols are errors of loading on any device.
pub(crate) fn acceptance(device: &DeviceCore, image: &[u8]) -> Acceptance {
    if Module::recognise(image).is_none() {
        return Acceptance::Refused("neither SPIR-V nor WGSL".to_owned());
    }
    match parse(device, image) {
        Ok(module) => match device.physical.features.lacking(&module.requirements()) {
            Some(lacking) => Acceptance::Refused(lacking),
            None if is_verified(device, &module) => Acceptance::Verified,
            None => Acceptance::Accepted,
        },
        Err(error) if error.code() == ErrorCode::CompileFailure => Acceptance::Verified,
        Err(error) if error.code() == ErrorCode::LinkFailure => Acceptance::Verified,
        Err(error) => Acceptance::Refused(error.message().to_owned()),
    }
}

/// Returns whether loading and unloading are sound for any image. naga's translation of WGSL is
/// valid and bounds every access. SPIR-V needs a validator, and must run no code then: a valid
/// module's accesses have no bounds.
fn is_verified(device: &DeviceCore, module: &Module) -> bool {
    let runs_code = !module.constructors().is_empty() || !module.destructors().is_empty();
    match module.format() {
        Format::Wgsl => true,
        Format::Spirv => {
            let layouts = device.physical.features.layouts();
            !runs_code && device.validator.vouches_for(module, vulkan_version(device), layouts)
        }
    }
}

/// Returns the major and minor version of Vulkan that the device is used with.
fn vulkan_version(device: &DeviceCore) -> (u32, u32) {
    let version = device.physical.version;
    (vk::api_version_major(version), vk::api_version_minor(version))
}

impl VulkanModule {
    /// Checks an image and creates all objects that do not depend on a launch. Pipelines of kernels
    /// with a fixed size are built now, on as many threads as there are processors.
    ///
    /// # Errors
    /// See `docs/vulkan-images.md`.
    pub(crate) fn load(device: &Arc<DeviceCore>, image: &[u8]) -> Result<VulkanModule> {
        let code = parse(device, image)?;
        if let Some(lacking) = device.physical.features.lacking(&code.requirements()) {
            return Err(Error::new(ErrorCode::Unsupported, lacking));
        }
        let layouts = device.physical.features.layouts();
        device.validator.check(&code, vulkan_version(device), layouts)?;
        let globals = Globals::allocate(device, code.globals_bytes())?;
        let code = Arc::new(code);
        let make = |shape: &Kernel| VulkanKernel::new(device, &code, shape, globals.as_ref());
        let kernels = code.kernels().iter();
        let kernels = kernels.map(|shape| Ok((shape.name.clone(), Arc::new(make(shape)?))));
        let procedures = |list: &[longshore_format_spirv::Procedure]| {
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

    /// Builds the pipelines that are the same for all launches.
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

    /// Runs one constructor or destructor and checks its status variable.
    fn run(&self, kernel: &VulkanKernel, queue: &VulkanQueue, status: &str) -> Result<()> {
        let shape = LaunchShape::new([1; 3], kernel.own_size().group).with_wait(true);
        // SAFETY: the kernel has no arguments; the image is responsible for its behaviour.
        let none = unsafe { Arguments::from_raw(std::ptr::null(), std::ptr::null(), 0) };
        queue.launch(kernel, &shape, none)?;
        match self.read_word(status)? {
            None | Some(0) => Ok(()),
            Some(code) => {
                let name = &kernel.core().shape.name;
                let message = format!("'{name}' failed: '{status}' is {code}, expected 0");
                Err(Error::new(ErrorCode::BackendFailure, message))
            }
        }
    }

    fn read_word(&self, name: &str) -> Result<Option<u32>> {
        let Some(bytes) = self.read_global(name)? else { return Ok(None) };
        Ok(bytes.1.first_chunk().map(|word| u32::from_le_bytes(*word)))
    }

    /// Returns the address and contents of a global, found by its name without leading underscores.
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
            return Ok(GlobalAddress::new(address, member.bytes.into()));
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

    /// Runs the constructors one after the other, until one fails.
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
        let found = self.read_global(PoolTracker::SYMBOL)?;
        found.map(|(_, bytes)| PoolTracker::parse(&bytes)).transpose()
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
                sections.push(ProfileSection::new(kind, address, contents));
            }
        }
        Ok(sections)
    }
}

fn parse(device: &DeviceCore, image: &[u8]) -> Result<Module> {
    let most = device.physical.limits.push_constant_bytes.min(MOST_PUSH_CONSTANTS);
    let zeroes = device.physical.features.zeroes_shared_memory();
    Module::parse(image, Target::new(most).with_zeroed_shared_memory(zeroes)).map_err(fault)
}

#[cold]
fn wrong_kind(name: &str, found: &str, expected: &str) -> Error {
    let message = format!("'{name}' is {found} of the image, expected a {expected}");
    Error::new(ErrorCode::SymbolKind, message)
}

/// Calls `work` for each item, on as many threads as there are processors. Returns the first
/// failure.
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
        // If no thread can be started, this thread does all the work.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, take).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let ours = take();
        let theirs = others.into_iter().map(|other| {
            other
                .join()
                .unwrap_or_else(|payload| Err(Error::from_panic("building kernels", payload)))
        });
        theirs.fold(ours, |first, result| first.and(result))
    })
}
