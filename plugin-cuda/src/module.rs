//! Loaded images.

mod life;
mod profile;

use crate::device::DeviceCore;
use crate::driver::CuResult;
use crate::driver::types::{DevicePtr, Function, Module as RawModule};
use crate::{CudaBackend, CudaKernel, image, jit};
use longshore_cuda_image::{Contents, Kind, Linkage, Variable, fatbin};
use longshore_plugin_api::{
    Error, ErrorCode, GlobalAddress, ImageBytes, KernelAttributes, PoolTracker, ProfileSection,
    Result, SymbolKind,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// How the names of variables begin that are no variables of the program: tables of constructors, and
/// what the device header and LLVM's profiles leave.
const NOT_OF_PROGRAM: [&str; 4] =
    ["__init_array_", "__fini_array_", "__longshore_kernel_", "__longshore_grid_barrier"];

/// A module of the driver.
///
/// LLVM: `CUDADeviceImageTy`.
pub struct CudaModule {
    device: Arc<DeviceCore>,
    raw: RawModule,
    /// What the driver has loaded.
    image: Loaded,
    contents: OnceLock<Contents>,
    kernels: Mutex<HashMap<String, Arc<CudaKernel>>>,
}

/// The bytes that a module was made of.
enum Loaded {
    /// The host's.
    AsGiven(ImageBytes),
    /// Linked from the host's.
    Linked(Vec<u8>),
}

impl CudaModule {
    /// Loads an image. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for what the device does not run, `CompileFailure` and `LinkFailure` with the
    /// driver's log, those of the driver.
    pub(crate) fn load(device: &Arc<DeviceCore>, bytes: ImageBytes) -> Result<CudaModule> {
        device.refuse_if_lost()?;
        let given = bytes.get();
        image::suitability(given, device.physical.arch)
            .map_err(|why| Error::new(ErrorCode::InvalidBinary, why))?;
        let (raw, image, contents) = match Kind::recognise(given) {
            Some(Kind::Ptx) => {
                // Text of other runtimes ends with one.
                let end = given.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                let given = &given[..end];
                let contents = Contents::of_ptx(given);
                refuse_undefined(&contents)?;
                let text = profile::visible(given, &contents);
                let text = CString::new(text).map_err(|nul| has_nul(nul.nul_position()))?;
                let raw = jit::load(device, text.as_bytes_with_nul())?;
                (raw, Loaded::AsGiven(bytes), OnceLock::from(contents))
            }
            Some(Kind::Object) => {
                let linked = jit::link(device, &[given])?;
                (jit::load(device, &linked)?, Loaded::Linked(linked), OnceLock::new())
            }
            _ => (jit::load(device, given)?, Loaded::AsGiven(bytes), OnceLock::new()),
        };
        Ok(CudaModule {
            device: Arc::clone(device),
            raw,
            image,
            contents,
            kernels: Mutex::default(),
        })
    }

    /// What the image says of itself; of a fatbin, the entry that suits the device best.
    fn contents(&self) -> &Contents {
        self.contents
            .get_or_init(|| contents(self.bytes(), self.device.physical.arch).unwrap_or_default())
    }

    /// Whether the image's bytes have a name's start anywhere.
    fn names_something(&self, start: &str) -> bool {
        memchr::memmem::find(self.bytes(), start.as_bytes()).is_some()
    }

    /// What the driver has loaded.
    fn bytes(&self) -> &[u8] {
        match &self.image {
            Loaded::AsGiven(bytes) => bytes.get(),
            Loaded::Linked(bytes) => bytes,
        }
    }

    /// The driver's function of this name.
    fn function(&self, name: &str) -> Result<Option<Function>> {
        let Ok(c_name) = CString::new(name) else { return Ok(None) };
        let mut function = Function::NULL;
        self.device.refuse_if_lost()?;
        let found = self.device.try_call(|driver| {
            // SAFETY: the output is ours, the module is live, the name ends with NUL.
            unsafe { driver.cuModuleGetFunction(&mut function, self.raw, c_name.as_ptr()) }
        });
        match found {
            Err(failure) if failure.is(CuResult::NOT_FOUND) => Ok(None),
            found => {
                let found = self.device.check(format_args!("looking for kernel '{name}'"), found);
                found.map(|()| Some(function))
            }
        }
    }

    /// The driver's variable of this name.
    fn variable(&self, name: &str) -> Result<Option<GlobalAddress>> {
        let Ok(c_name) = CString::new(name) else { return Ok(None) };
        let (mut address, mut bytes): (DevicePtr, usize) = (0, 0);
        self.device.refuse_if_lost()?;
        let found = self.device.try_call(|driver| {
            // SAFETY: the outputs are ours, the module is live, the name ends with NUL.
            unsafe { driver.cuModuleGetGlobal(&mut address, &mut bytes, self.raw, c_name.as_ptr()) }
        });
        match found {
            Err(failure) if failure.is(CuResult::NOT_FOUND) => Ok(None),
            found => {
                let found = self.device.check(format_args!("looking for global '{name}'"), found);
                found.map(|()| Some(GlobalAddress { address, bytes: bytes as u64 }))
            }
        }
    }

    /// What a variable holds now. Blocks.
    fn read(&self, from: GlobalAddress) -> Result<Vec<u8>> {
        let mut contents = vec![0u8; from.bytes as usize];
        self.device.call("reading a variable", |driver| {
            let (to, service) = (contents.as_mut_ptr().cast(), self.device.service);
            // SAFETY: the buffer has as many bytes as the variable, and the call is waited for.
            unsafe {
                driver.cuMemcpyDtoHAsync(to, from.address, contents.len(), service)?;
                driver.cuStreamSynchronize(service)
            }
        })?;
        Ok(contents)
    }

    /// Sets what memory of the module holds. Blocks.
    fn write(&self, to: DevicePtr, contents: &[u8]) -> Result<()> {
        self.device.call("writing a variable", |driver| {
            let service = self.device.service;
            // SAFETY: the caller has asked the driver for a variable of this size; the call is waited
            // for.
            unsafe {
                driver.cuMemcpyHtoDAsync(to, contents.as_ptr().cast(), contents.len(), service)?;
                driver.cuStreamSynchronize(service)
            }
        })
    }

    /// Where a variable of the image is: also one that the driver does not find, if it finds another of
    /// the same section.
    fn place_of(&self, variable: &Variable) -> Result<Option<GlobalAddress>> {
        // Where there are no places, what is internal was made visible if it is wanted.
        if (variable.linkage != Linkage::Internal || variable.place.is_none())
            && let Some(found) = self.variable(&variable.name)?
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
            if let Some(found) = self.variable(&other.name)? {
                let address = found.address.wrapping_add(place.offset).wrapping_sub(its.offset);
                return Ok(Some(GlobalAddress { address, bytes: variable.bytes }));
            }
        }
        Ok(None)
    }
}

impl longshore_plugin_api::Module<CudaBackend> for CudaModule {
    fn kernel(&self, name: &str) -> Result<(Arc<CudaKernel>, KernelAttributes)> {
        if let Some(kernel) = self.kernels.lock().get(name) {
            return Ok((Arc::clone(kernel), kernel.attributes()));
        }
        let function = match is_step(name) {
            true => None,
            false => self.function(name)?,
        };
        let Some(function) = function else {
            return Err(match self.variable(name)? {
                Some(_) => wrong_kind(name, "a global", "kernel"),
                None => not_found(name, "kernel"),
            });
        };
        let of_image = self.contents().kernels.iter().find(|kernel| kernel.name == name);
        let kernel = Arc::new(CudaKernel::new(&self.device, name, function, of_image)?);
        let mut kernels = self.kernels.lock();
        let kernel = Arc::clone(kernels.entry(name.to_owned()).or_insert(kernel));
        let attributes = kernel.attributes();
        Ok((kernel, attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        if let Some(found) = self.variable(name)? {
            return Ok(found);
        }
        Err(match !is_step(name) && self.function(name)?.is_some() {
            true => wrong_kind(name, "a kernel", "global"),
            false => not_found(name, "global"),
        })
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let contents = self.contents();
        let kernels = contents.kernels.iter().filter(|kernel| !is_step(&kernel.name));
        let kernels = kernels.map(|kernel| (kernel.name.clone(), SymbolKind::Kernel));
        let of_program = |variable: &&Variable| {
            variable.linkage != Linkage::Internal
                && !NOT_OF_PROGRAM.iter().any(|start| variable.name.starts_with(start))
        };
        let globals = contents.variables.iter().filter(of_program);
        let globals = globals.map(|variable| (variable.name.clone(), SymbolKind::Global));
        Ok(kernels.chain(globals).collect())
    }

    fn run_constructors(&self) -> Result<()> {
        self.run_step(&life::CONSTRUCTORS)
    }

    fn run_destructors(&self) -> Result<()> {
        self.run_step(&life::DESTRUCTORS)
    }

    fn unload(self) -> Result<()> {
        let CudaModule { device, raw, .. } = self;
        let unloaded = device.end("unloading an image", |driver| {
            // SAFETY: it is live, and no queue uses it any more.
            unsafe { driver.cuModuleUnload(raw) }
        });
        if unloaded.is_err() {
            device.abandon(raw);
        }
        unloaded
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        let Some(found) = self.variable(PoolTracker::SYMBOL)? else { return Ok(None) };
        PoolTracker::parse(&self.read(found)?).map(Some)
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        self.profile_sections()
    }
}

/// A kernel that runs constructors or destructors is none of the program's.
fn is_step(name: &str) -> bool {
    [&life::CONSTRUCTORS, &life::DESTRUCTORS].iter().any(|step| step.kernel == name)
}

fn contents(bytes: &[u8], arch: longshore_cuda_image::Arch) -> Option<Contents> {
    match Kind::recognise(bytes)? {
        Kind::Ptx => Some(Contents::of_ptx(bytes)),
        Kind::Cubin | Kind::Object => Contents::of_cubin(bytes).ok(),
        Kind::Fatbin => {
            let entries = fatbin(bytes).ok()?;
            let images = entries.iter().filter_map(|entry| entry.image().ok());
            let ranked =
                images.filter_map(|entry| Some((image::suitability(&entry, arch).ok()?, entry)));
            let (_, best) = ranked.max_by_key(|(rank, _)| *rank)?;
            match Kind::recognise(&best)? {
                Kind::Fatbin => None,
                _ => contents(&best, arch),
            }
        }
        _ => None,
    }
}

/// What refers to LLVM's profile runtime, which Longshore is in place of, only names it.
fn refuse_undefined(contents: &Contents) -> Result<()> {
    let undefined = contents.undefined.iter().filter(|name| *name != profile::RUNTIME);
    let names: Vec<&str> = undefined.map(String::as_str).collect();
    if names.is_empty() {
        return Ok(());
    }
    let names = names.join("', '");
    Err(Error::new(ErrorCode::LinkFailure, format!("undefined in the PTX: '{names}'")))
}

#[cold]
fn has_nul(at: usize) -> Error {
    Error::new(ErrorCode::InvalidBinary, format!("the PTX has a NUL at byte {at}, expected text"))
}

#[cold]
fn not_found(name: &str, kind: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("the image has no {kind} '{name}'"))
}

#[cold]
fn wrong_kind(name: &str, found: &str, expected: &str) -> Error {
    let message = format!("'{name}' is {found} of the image, expected a {expected}");
    Error::new(ErrorCode::SymbolKind, message)
}
