//! The data of a loaded image.

mod life;
mod profile;

use crate::device::Core;
use crate::driver::Driver;
use crate::driver::types::{Function, Module as RawModule, function_attribute};
use crate::{image, jit};
use longshore_format_nvidia::{Contents, Kernel, Kind, Linkage, Variable, fatbin};
use longshore_plugin_api::{
    Error, ErrorCode, GlobalAddress, ImageBytes, KERNEL_DESCRIPTION_PREFIX, KernelAttributes,
    ProfileSection, Result, SymbolKind,
};
use longshore_plugin_streams::{Code, Image, ModuleCore, profile_part};
use std::borrow::Cow;
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// Prefixes of variables that do not belong to the program: tables of constructors, and variables
/// of the device header.
const NOT_OF_PROGRAM: [&str; 4] =
    ["__init_array_", "__fini_array_", KERNEL_DESCRIPTION_PREFIX, "__longshore_grid_barrier"];

/// Most bytes of a kernel description; a longer variable is not one.
const LONGEST_DESCRIPTION: usize = 1 << 20;

/// An image that the driver has loaded.
///
/// LLVM: `CUDADeviceImageTy`.
pub struct CudaImage {
    /// The bytes that the driver has loaded.
    bytes: ImageSource,
    arch: longshore_format_nvidia::Arch,
    contents: OnceLock<Contents>,
}

/// The bytes that a module was loaded from.
enum ImageSource {
    /// The host's bytes.
    AsGiven(ImageBytes),
    /// An image linked from the host's bytes.
    Linked(Vec<u8>),
}

impl CudaImage {
    /// Loads an image that suits the device. Blocks.
    ///
    /// # Errors
    /// `CompileFailure` and `LinkFailure` with the driver's log, errors of the driver.
    pub(crate) fn load(device: &Arc<Core>, bytes: ImageBytes) -> Result<(RawModule, CudaImage)> {
        let given = bytes.get();
        let (raw, bytes, contents) = match Kind::recognise(given) {
            Some(Kind::Ptx) => {
                // PTX from other runtimes may end with NULs already.
                let end = given.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                let given = &given[..end];
                let contents = Contents::from_ptx(given);
                refuse_undefined(&contents)?;
                let text = profile::visible(given, &contents);
                let text = CString::new(text).map_err(|nul| has_nul(nul.nul_position()))?;
                let raw = jit::load(device, text.as_bytes_with_nul())?;
                (raw, ImageSource::AsGiven(bytes), OnceLock::from(contents))
            }
            Some(Kind::Object) => {
                let linked = jit::link(device, &[given])?;
                (jit::load(device, &linked)?, ImageSource::Linked(linked), OnceLock::new())
            }
            _ => (jit::load(device, given)?, ImageSource::AsGiven(bytes), OnceLock::new()),
        };
        Ok((raw, CudaImage { bytes, arch: device.device_data().arch, contents }))
    }

    /// Returns the description of the image's contents; for a fatbin, of the entry that suits the
    /// device best.
    fn contents(&self) -> &Contents {
        self.contents.get_or_init(|| contents(self.bytes(), self.arch).unwrap_or_default())
    }

    /// Returns whether a string occurs anywhere in the image's bytes.
    fn names_something(&self, start: &str) -> bool {
        memchr::memmem::find(self.bytes(), start.as_bytes()).is_some()
    }

    /// Returns the bytes that the driver has loaded.
    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            ImageSource::AsGiven(bytes) => bytes.get(),
            ImageSource::Linked(bytes) => bytes,
        }
    }

    /// Returns the address of a variable of the image. If the driver does not find the variable,
    /// another variable of the same section locates it.
    fn place_of(
        &self,
        module: &ModuleCore<Driver>,
        variable: &Variable,
    ) -> Result<Option<GlobalAddress>> {
        // Without places, as in PTX, `profile::visible` has made the needed internal variables
        // visible.
        if (variable.linkage != Linkage::Internal || variable.place.is_none())
            && let Some(found) = module.variable(&variable.name)?
        {
            return Ok(Some(found));
        }
        let Some(place) = variable.place else { return Ok(None) };
        for other in &self.contents().variables {
            let Some(its) = other.place.filter(|its| its.section == place.section) else {
                continue;
            };
            if other.linkage == Linkage::Internal {
                continue;
            }
            if let Some(found) = module.variable(&other.name)? {
                let address = found.address.wrapping_add(place.offset).wrapping_sub(its.offset);
                return Ok(Some(GlobalAddress::new(address, variable.bytes)));
            }
        }
        Ok(None)
    }
}

impl Image<Driver> for CudaImage {
    fn has(&self, name: &str, kind: SymbolKind) -> bool {
        kind == SymbolKind::Global || !is_phase_kernel(name)
    }

    fn attributes(
        &self,
        module: &ModuleCore<Driver>,
        name: &str,
        function: Function,
    ) -> Result<KernelAttributes> {
        let device = module.device();
        let doing = format!("querying kernel '{name}'");
        let attribute = |which| -> Result<u64> {
            let mut value = 0;
            device.call(&doing, |driver| {
                // SAFETY: the output is a local variable, and the function is of a live module.
                unsafe { driver.cuFuncGetAttribute(&mut value, which, function) }
            })?;
            Ok(value.max(0) as u64)
        };
        let of_image = self.contents().kernels.iter().find(|kernel| kernel.name == name);
        let argument_sizes = of_image.map(|kernel: &Kernel| kernel.argument_sizes.clone());
        let mut found = KernelAttributes::default();
        found.argument_sizes = argument_sizes.or_else(|| parameters(device, function));
        found.max_group_items = attribute(function_attribute::MAX_THREADS_PER_BLOCK)? as u32;
        found.static_shared_bytes = attribute(function_attribute::SHARED_SIZE_BYTES)?;
        found.private_bytes = attribute(function_attribute::LOCAL_SIZE_BYTES)?;
        found.registers = attribute(function_attribute::NUM_REGS)? as u32;
        found.required_group =
            of_image.and_then(|kernel| kernel.required_group).unwrap_or_default();
        Ok(found)
    }

    fn description(&self, kernel: &str) -> Option<Cow<'_, [u8]>> {
        let mut variables = self.contents().variables.iter();
        let found = variables
            .find(|variable| variable.name.strip_prefix(KERNEL_DESCRIPTION_PREFIX) == Some(kernel));
        found?.content(LONGEST_DESCRIPTION).map(Cow::Owned)
    }

    fn symbols(&self) -> Vec<(String, SymbolKind)> {
        let contents = self.contents();
        let kernels = contents.kernels.iter().filter(|kernel| !is_phase_kernel(&kernel.name));
        let kernels = kernels.map(|kernel| (kernel.name.clone(), SymbolKind::Kernel));
        let of_program = |variable: &&Variable| {
            variable.linkage != Linkage::Internal
                && profile_part(&variable.name).is_none()
                && !NOT_OF_PROGRAM.iter().any(|start| variable.name.starts_with(start))
        };
        let globals = contents.variables.iter().filter(of_program);
        let globals = globals.map(|variable| (variable.name.clone(), SymbolKind::Global));
        kernels.chain(globals).collect()
    }

    fn run_constructors(&self, module: &ModuleCore<Driver>) -> Result<()> {
        self.run_phase(module, &life::CONSTRUCTORS)
    }

    fn run_destructors(&self, module: &ModuleCore<Driver>) -> Result<()> {
        self.run_phase(module, &life::DESTRUCTORS)
    }

    fn profile(&self, module: &ModuleCore<Driver>) -> Result<Vec<ProfileSection>> {
        self.profile_sections(module)
    }
}

/// Returns whether the kernel runs constructors or destructors, and so does not belong to the
/// program.
fn is_phase_kernel(name: &str) -> bool {
    [&life::CONSTRUCTORS, &life::DESTRUCTORS].iter().any(|phase| phase.kernel == name)
}

fn contents(bytes: &[u8], arch: longshore_format_nvidia::Arch) -> Option<Contents> {
    match Kind::recognise(bytes)? {
        Kind::Ptx => Some(Contents::from_ptx(bytes)),
        Kind::Cubin | Kind::Object => Contents::from_cubin(bytes).ok(),
        Kind::Fatbin => {
            let entries = fatbin(bytes).ok()?;
            let images = entries.iter().filter_map(|entry| entry.image().ok());
            let scored =
                images.filter_map(|entry| Some((image::suitability(&entry, arch).ok()?, entry)));
            let (_, best) = scored.max_by_key(|(score, _)| *score)?;
            match Kind::recognise(&best)? {
                Kind::Fatbin => None,
                _ => contents(&best, arch),
            }
        }
        _ => None,
    }
}

/// Returns an error for undefined symbols. A reference to LLVM's profile runtime is allowed: the
/// code only names it, and Longshore replaces it.
fn refuse_undefined(contents: &Contents) -> Result<()> {
    let undefined = contents.undefined.iter().filter(|name| *name != profile::RUNTIME);
    let names: Vec<&str> = undefined.map(String::as_str).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join("', '");
    Err(Error::new(ErrorCode::LinkFailure, format!("the PTX has undefined symbols: '{names}'")))
}

#[cold]
fn has_nul(at: usize) -> Error {
    Error::new(ErrorCode::InvalidBinary, format!("the PTX has a NUL at byte {at}, expected text"))
}

/// Returns the sizes of the arguments in bytes, if the driver reports them.
fn parameters(device: &Core, function: Function) -> Option<Vec<u32>> {
    let mut sizes = Vec::new();
    let _current = device.enter().ok()?;
    loop {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the outputs are local variables, and the function is of a live module.
        let asked = unsafe {
            device.driver().cuFuncGetParamInfo(function, sizes.len(), &mut offset, &mut bytes)
        };
        match asked {
            Ok(()) => sizes.push(u32::try_from(bytes).ok()?),
            Err(failure) if failure.is(Code::INVALID_VALUE) => return Some(sizes),
            Err(_) => return None,
        }
    }
}
