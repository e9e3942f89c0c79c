//! The data of a loaded code object.

mod profile;
mod steps;

use crate::device::Core;
use crate::driver::Driver;
use crate::link;
use longshore_format_amdgpu::{
    CodeObject, Kernel, KernelKind, Linkage, Malformed, Variable, loadable,
};
use longshore_plugin_api::{
    Error, ErrorCode, GlobalAddress, ImageBytes, KERNEL_DESCRIPTION_PREFIX, KernelAttributes,
    ProfileSection, Result, SymbolKind,
};
use longshore_plugin_streams::{Function, Image, Module, ModuleCore, profile_part};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The variable of an image that holds the address of the ring of messages.
const MESSAGES: &str = "__longshore_printf_buffer";
/// Prefixes of variables that belong to the device header or to clang, not to the program.
const NOT_OF_PROGRAM: [&str; 2] = ["__longshore_", "__hip_cuid_"];
/// Variables in which device code reports a failure of constructors and of destructors.
const STATUS: [&str; 2] = ["__longshore_constructor_status", "__longshore_destructor_status"];

/// A code object that HIP has loaded.
///
/// LLVM: `AMDGPUDeviceImageTy`.
pub struct AmdgpuImage {
    contents: CodeObject,
    kernels: HashMap<String, usize>,
    /// Names of the variables that HIP finds.
    globals: HashSet<String>,
    /// The bytes that HIP may still read.
    bytes: ImageSource,
}

/// The bytes that a module was loaded from.
enum ImageSource {
    /// The host's bytes.
    AsGiven(ImageBytes),
    /// An image made from the host's bytes.
    Made(Vec<u8>),
}

impl ImageSource {
    fn get(&self) -> &[u8] {
        match self {
            ImageSource::AsGiven(bytes) => bytes.get(),
            ImageSource::Made(bytes) => bytes,
        }
    }
}

impl AmdgpuImage {
    /// Loads an image that suits the device. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for bytes that are not a complete code object; `HostToolNotFound` and
    /// `LinkFailure` for an object that has to be linked; errors of HIP.
    pub(crate) fn load(device: &Arc<Core>, bytes: ImageBytes) -> Result<(Module, AmdgpuImage)> {
        let own = device.device_data();
        let given = read(bytes.get())?;
        let (bytes, contents) = match given.header.is_relocatable {
            false => (ImageSource::AsGiven(bytes), given),
            true => {
                let linked = link::link(bytes.get(), own.linker.as_deref())?;
                let contents = read(&linked)?;
                (ImageSource::Made(linked), contents)
            }
        };
        refuse_undefined(&contents)?;
        let bytes = match loadable(bytes.get()).map_err(malformed)? {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(repaired) => ImageSource::Made(repaired),
        };
        let bytes = steps::hidden(bytes.get(), &contents)?.map_or(bytes, ImageSource::Made);
        let mut module = Module::NULL;
        device.call("loading an image", |driver| {
            // SAFETY: the image is complete, as its reader has checked, and stays in memory.
            unsafe { driver.hipModuleLoadData(&mut module, bytes.get().as_ptr().cast()) }
        })?;
        let names = contents.kernels.iter().enumerate();
        let kernels = names.map(|(at, kernel)| (kernel.name.clone(), at)).collect();
        let visible = contents.variables.iter().filter(|variable| is_visible(variable));
        let globals = visible.map(|variable| variable.name.clone()).collect();
        Ok((module, AmdgpuImage { contents, kernels, globals, bytes }))
    }

    fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name).map(|at| &self.contents.kernels[*at])
    }

    /// Runs the image's kernels for constructors or for destructors.
    fn run_phase(&self, module: &ModuleCore<Driver>, kind: KernelKind) -> Result<()> {
        let (what, status) = match kind {
            KernelKind::Fini => ("destructors", STATUS[1]),
            _ => ("constructors", STATUS[0]),
        };
        for kernel in self.contents.kernels.iter().filter(|kernel| kernel.kind == kind) {
            let function = module.function(&kernel.name)?.ok_or_else(|| {
                let name = &kernel.name;
                let message = format!("the image has {what}, but lacks '{name}'");
                Error::new(ErrorCode::InvalidBinary, message)
            })?;
            // The kernel may still be running.
            module.run(function, what).inspect_err(|_| module.wait_until_idle())?;
        }
        match self.globals.contains(status) {
            true => module.check_status(status, what),
            false => Ok(()),
        }
    }

    /// Returns HIP's variable of this name. The function asks HIP only for symbols that HIP finds:
    /// for others HIP ends the process.
    fn variable(&self, module: &ModuleCore<Driver>, name: &str) -> Result<Option<GlobalAddress>> {
        match self.globals.contains(name) {
            true => module.variable(name),
            false => Ok(None),
        }
    }
}

impl Image<Driver> for AmdgpuImage {
    /// Writes the address of the ring of messages into the image.
    fn was_loaded(&self, module: &ModuleCore<Driver>) -> Result<()> {
        let Some(found) = self.variable(module, MESSAGES)?.filter(|found| found.bytes == 8) else {
            return Ok(());
        };
        let device = module.device();
        let ring = device.device_data().ring(device)?;
        module.write(found.address, &ring.to_le_bytes())
    }

    fn has(&self, name: &str, kind: SymbolKind) -> bool {
        match kind {
            SymbolKind::Kernel => {
                self.kernel(name).is_some_and(|kernel| kernel.kind == KernelKind::Normal)
            }
            SymbolKind::Global => self.globals.contains(name),
            _ => false,
        }
    }

    /// Returns the attributes of a kernel, all from the image.
    fn attributes(
        &self,
        _module: &ModuleCore<Driver>,
        name: &str,
        _function: Function,
    ) -> Result<KernelAttributes> {
        let kernel = self.kernel(name).ok_or_else(|| {
            let message = format!("the image has no metadata for kernel '{name}'");
            Error::new(ErrorCode::InvalidBinary, message)
        })?;
        let sizes = kernel.arguments.iter().map(|argument| argument.bytes);
        let mut attributes = KernelAttributes::default();
        attributes.argument_sizes = Some(sizes.collect());
        attributes.max_group_items = kernel.max_group_items.unwrap_or(0);
        attributes.static_shared_bytes = u64::from(kernel.static_shared_bytes);
        attributes.private_bytes = u64::from(kernel.private_bytes);
        attributes.registers = kernel.registers.unwrap_or(0);
        attributes.required_group = kernel.required_group.unwrap_or_default();
        Ok(attributes)
    }

    fn description(&self, kernel: &str) -> Option<Cow<'_, [u8]>> {
        let mut variables = self.contents.variables.iter();
        let found = variables
            .find(|variable| variable.name.strip_prefix(KERNEL_DESCRIPTION_PREFIX) == Some(kernel));
        Some(Cow::Borrowed(found?.initial(self.bytes.get())))
    }

    fn symbols(&self) -> Vec<(String, SymbolKind)> {
        let kernels =
            self.contents.kernels.iter().filter(|kernel| kernel.kind == KernelKind::Normal);
        let kernels = kernels.map(|kernel| (kernel.name.clone(), SymbolKind::Kernel));
        let of_program = |variable: &&Variable| {
            is_visible(variable)
                && profile_part(&variable.name).is_none()
                && !NOT_OF_PROGRAM.iter().any(|start| variable.name.starts_with(start))
        };
        let globals = self.contents.variables.iter().filter(of_program);
        let globals = globals.map(|variable| (variable.name.clone(), SymbolKind::Global));
        kernels.chain(globals).collect()
    }

    fn run_constructors(&self, module: &ModuleCore<Driver>) -> Result<()> {
        self.run_phase(module, KernelKind::Init)
    }

    fn run_destructors(&self, module: &ModuleCore<Driver>) -> Result<()> {
        self.run_phase(module, KernelKind::Fini)
    }

    fn profile(&self, module: &ModuleCore<Driver>) -> Result<Vec<ProfileSection>> {
        self.profile_sections(module)
    }
}

fn is_visible(variable: &Variable) -> bool {
    variable.linkage != Linkage::Internal
}

fn read(image: &[u8]) -> Result<CodeObject> {
    CodeObject::read(image).map_err(malformed)
}

fn malformed(malformed: Malformed) -> Error {
    Error::new(ErrorCode::InvalidBinary, malformed.to_string())
}

/// Returns an error for undefined symbols: HIP would load the incomplete image, and then end the
/// process.
fn refuse_undefined(contents: &CodeObject) -> Result<()> {
    if contents.undefined.is_empty() {
        return Ok(());
    }
    let names = contents.undefined.join("', '");
    Err(Error::new(
        ErrorCode::LinkFailure,
        format!("the code object has undefined symbols: '{names}'"),
    ))
}
