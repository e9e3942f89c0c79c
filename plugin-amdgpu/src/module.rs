//! What a loaded code object says of itself.

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

/// Where images say that messages go.
const MESSAGES: &str = "__longshore_printf_buffer";
/// How the names of variables begin that are not the program's, but the device header's or clang's.
const NOT_OF_PROGRAM: [&str; 2] = ["__longshore_", "__hip_cuid_"];
/// Where code says that it failed.
const STATUS: [&str; 2] = ["__longshore_constructor_status", "__longshore_destructor_status"];

/// A code object that HIP has loaded.
///
/// LLVM: `AMDGPUDeviceImageTy`.
pub struct AmdgpuImage {
    contents: CodeObject,
    kernels: HashMap<String, usize>,
    /// Names of the variables that HIP finds.
    globals: HashSet<String>,
    /// What HIP may still read.
    bytes: Loaded,
}

/// The bytes that a module was made of.
enum Loaded {
    /// The host's.
    AsGiven(ImageBytes),
    /// Made of the host's.
    Made(Vec<u8>),
}

impl Loaded {
    fn get(&self) -> &[u8] {
        match self {
            Loaded::AsGiven(bytes) => bytes.get(),
            Loaded::Made(bytes) => bytes,
        }
    }
}

impl AmdgpuImage {
    /// Loads an image that suits the device. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for what is no whole code object; `HostToolNotFound` and `LinkFailure` for what has to
    /// be linked; those of HIP.
    pub(crate) fn load(device: &Arc<Core>, bytes: ImageBytes) -> Result<(Module, AmdgpuImage)> {
        let own = device.own();
        let given = read(bytes.get())?;
        let (bytes, contents) = match given.header.is_relocatable {
            false => (Loaded::AsGiven(bytes), given),
            true => {
                let linked = link::link(bytes.get(), own.linker.as_deref())?;
                let contents = read(&linked)?;
                (Loaded::Made(linked), contents)
            }
        };
        refuse_undefined(&contents)?;
        let bytes = match loadable(bytes.get()).map_err(malformed)? {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(repaired) => Loaded::Made(repaired),
        };
        let bytes = steps::hidden(bytes.get(), &contents)?.map_or(bytes, Loaded::Made);
        let mut module = Module::NULL;
        device.call("loading an image", |driver| {
            // SAFETY: the image is whole, as its reader has seen, and stays.
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

    /// Runs the kernels that are there for one of the two ends of the image's life.
    fn run_step(&self, module: &ModuleCore<Driver>, kind: KernelKind) -> Result<()> {
        let (what, status) = match kind {
            KernelKind::Fini => ("destructors", STATUS[1]),
            _ => ("constructors", STATUS[0]),
        };
        for kernel in self.contents.kernels.iter().filter(|kernel| kernel.kind == kind) {
            let function = module.function(&kernel.name)?.ok_or_else(|| {
                let name = &kernel.name;
                let message = format!("the image has {what}, but '{name}' is not to be found");
                Error::new(ErrorCode::InvalidBinary, message)
            })?;
            // The kernel may run all the same.
            module.run(function, what).inspect_err(|_| module.settle())?;
        }
        match self.globals.contains(status) {
            true => module.check_status(status, what),
            false => Ok(()),
        }
    }

    /// HIP's variable of this name. HIP is asked for what it finds alone: over other symbols it ends the
    /// process.
    fn variable(&self, module: &ModuleCore<Driver>, name: &str) -> Result<Option<GlobalAddress>> {
        match self.globals.contains(name) {
            true => module.variable(name),
            false => Ok(None),
        }
    }
}

impl Image<Driver> for AmdgpuImage {
    /// Tells the image where its messages go.
    fn was_loaded(&self, module: &ModuleCore<Driver>) -> Result<()> {
        let Some(found) = self.variable(module, MESSAGES)?.filter(|found| found.bytes == 8) else {
            return Ok(());
        };
        let device = module.device();
        let ring = device.own().ring(device)?;
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

    /// All of it is from the image.
    fn attributes(
        &self,
        _module: &ModuleCore<Driver>,
        name: &str,
        _function: Function,
    ) -> Result<KernelAttributes> {
        let kernel = self.kernel(name).ok_or_else(|| {
            let message = format!("'{name}' is a kernel that the image does not describe");
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
        self.run_step(module, KernelKind::Init)
    }

    fn run_destructors(&self, module: &ModuleCore<Driver>) -> Result<()> {
        self.run_step(module, KernelKind::Fini)
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

/// HIP loads what is not whole, and then ends the process.
fn refuse_undefined(contents: &CodeObject) -> Result<()> {
    if contents.undefined.is_empty() {
        return Ok(());
    }
    let names = contents.undefined.join("', '");
    Err(Error::new(ErrorCode::LinkFailure, format!("undefined in the code object: '{names}'")))
}
