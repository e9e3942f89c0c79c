//! A loaded image: a shared object, which the system's loader opens from memory, or relocatable
//! objects, which the in-memory linker links. [`LoadedImage`] is the common interface of both.
//!
//! **Kernels** are the functions that the image itself exports, **globals** its exported variables
//! except thread-local ones. The exports of its libraries do not count. Hidden symbols of an OpenMP
//! image count, too, if its table of offload entries lists them ([`offload_entries`]).
//! An image with descriptions of kernels of Longshore's header lists only the described kernels;
//! its other functions can be looked up by name.
//!
//! **Constructors and destructors** do not run during the load: [`Module::run_constructors`] and
//! [`Module::run_destructors`] run them, in the order and with the arguments of the C library
//! ([`shared_library`], [`linked`]). An exported variable `int __longshore_constructor_status` or
//! `__longshore_destructor_status` that is not zero afterwards counts as a failure of the device's
//! code.
//!
//! **Kernel descriptions** are optional: an exported array of 32-bit numbers
//! `__longshore_arguments_<kernel>` holds the size of each argument in bytes. The host checks
//! launches of that kernel against it.

mod functions;
mod kernels;
mod lazy;
mod library;
mod linked;
mod loaded;
mod offload_entries;
mod profile;
mod profilers;
mod refusal;
mod shared_library;

use crate::elf;
use crate::guard::Modes;
use crate::kernel::abi::{GroupEntry, HostEntry};
use crate::kernel::{Code, GroupCode, Kernel, MOST_GROUP_ITEMS, SHARED_BYTES};
use crate::{HostBackend, LinkSettings};
use kernels::ImageNotes;
use lazy::{LateKernel, LazyImage};
use linked::LinkedImage;
use loaded::{LoadedImage, Symbol, pointer, variable};
use longshore_plugin_api::{
    Acceptance, Error, ErrorCode, GlobalAddress, ImageBytes, KERNEL_DESCRIPTION_PREFIX,
    KernelAttributes, Module, PoolTracker, ProfileSection, Result, SymbolKind,
};
use shared_library::SharedLibrary;
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

/// Prefixes of the variables that describe a kernel, before the kernel's name.
const DESCRIPTIONS: [&str; 2] = [KERNEL_DESCRIPTION_PREFIX, ARGUMENTS_OF];

const POOL_TRACKER: &str = "__omp_rtl_device_memory_pool_tracker";
/// Prefix of the variable that describes a kernel's arguments, before the kernel's name.
const ARGUMENTS_OF: &str = "__longshore_arguments_";

/// A kernel. Valid until its module is unloaded.
pub struct HostKernel {
    kernel: Kernel,
    /// The link before the first launch, for a kernel of a lazy image.
    late: Option<LateKernel>,
}

/// A loaded image. If a shared object's constructors have run and its destructors have not,
/// unloading leaves it in memory: its registered handlers would be called at the program's end.
/// Unloading relocatable objects removes their handlers.
pub struct HostModule {
    image: Image,
}

enum Image {
    Whole(Box<dyn LoadedImage>, ImageNotes),
    Lazy(Arc<LazyImage>),
}

impl Image {
    /// Returns the notes about the code of kernels. The first call for a lazy image reads all its
    /// symbols.
    fn notes(&self) -> &ImageNotes {
        match self {
            Image::Whole(_, notes) => notes,
            Image::Lazy(image) => image.notes(),
        }
    }
}

impl Deref for Image {
    type Target = dyn LoadedImage;

    fn deref(&self) -> &Self::Target {
        match self {
            Image::Whole(image, _) => &**image,
            Image::Lazy(image) => &**image,
        }
    }
}

/// The format of an image.
enum Format {
    SharedObject,
    /// An object, or an archive of objects.
    Relocatable,
}

/// Checks the headers of an image for a format that [`HostModule::load`] supports.
pub(crate) fn accepts(image: &[u8]) -> Acceptance {
    let headers = format_of(image).and_then(|format| match format {
        Format::SharedObject => elf::recognise(image),
        Format::Relocatable => Ok(()),
    });
    match headers {
        Ok(()) => Acceptance::Accepted,
        Err(error) => Acceptance::Refused(error.message().to_owned()),
    }
}

fn format_of(image: &[u8]) -> Result<Format> {
    let is_relocatable = linked::recognise_archive(image)? || elf::is_relocatable(image)?;
    Ok(if is_relocatable { Format::Relocatable } else { Format::SharedObject })
}

impl HostKernel {
    /// Returns the code and its mode of execution.
    #[inline]
    pub(crate) fn code(&self) -> &Code {
        &self.kernel.code
    }

    /// Returns the kernel's name in the image.
    pub(crate) fn name(&self) -> &str {
        &self.kernel.name
    }

    #[cfg(test)]
    pub(crate) fn host_form(name: &str, entry: HostEntry) -> HostKernel {
        HostKernel { kernel: Kernel::host_form(name, entry), late: None }
    }

    #[cfg(test)]
    pub(crate) fn work_group_form(name: &str, entry: GroupEntry) -> HostKernel {
        HostKernel { kernel: Kernel::work_group_form(name, entry), late: None }
    }

    /// Returns the kernel for a launch. The first launch of a lazily linked kernel links it and
    /// runs the constructors of the linked members, and blocks meanwhile.
    ///
    /// # Errors
    /// The errors of a load. The next call tries again.
    #[inline]
    pub(crate) fn prepare(&self) -> Result<&Kernel> {
        if let Some(late) = &self.late {
            late.prepare(self.name())?;
        }
        Ok(&self.kernel)
    }
}

impl HostModule {
    /// Checks an image and loads it into memory. Runs none of its constructors. Blocks. Relocatable
    /// objects may use the allowed names of the process.
    ///
    /// # Errors
    /// - `InvalidBinary` for an image that is malformed or not for this machine.
    /// - `NotFound` for a missing library that a shared object needs.
    /// - `LinkFailure` for undefined symbols, and for any other refusal of the loader or the
    ///   linker.
    /// - `Unsupported` for features that the linker lacks.
    /// - `OutOfResources` and `HostIo` for failures of memory.
    pub fn load(image: ImageBytes, links: &LinkSettings) -> Result<HostModule> {
        let notes = ImageNotes::read(image.get());
        let image: Box<dyn LoadedImage> = match format_of(image.get())? {
            // The constructors of its libraries may change the modes.
            Format::SharedObject => {
                Box::new(Modes::preserved(|| SharedLibrary::load(image, links))?)
            }
            Format::Relocatable => Box::new(LinkedImage::load(image, links)?),
        };
        Ok(HostModule { image: Image::Whole(image, notes) })
    }

    /// Loads an image, but links the functions of relocatable objects at their first call.
    ///
    /// # Errors
    /// The errors of [`Self::load`], except errors of links, which the calls return.
    pub fn load_lazily(image: ImageBytes, links: &LinkSettings) -> Result<HostModule> {
        match format_of(image.get())? {
            Format::SharedObject => HostModule::load(image, links),
            Format::Relocatable => {
                Ok(HostModule { image: Image::Lazy(LazyImage::load(image, links)?) })
            }
        }
    }

    /// Returns whether code of the image checks its accesses.
    pub(crate) fn has_checks(&self) -> bool {
        self.image.notes().has_checks
    }

    /// Returns the exported symbol of this name and kind.
    fn symbol_of(&self, kind: SymbolKind, name: &str) -> Result<Symbol> {
        let symbol = self.image.symbol(name)?.ok_or_else(|| not_found(kind, name))?;
        if symbol.kind == kind {
            return Ok(symbol);
        }
        let (found, asked) = (kind_name(symbol.kind), kind_name(kind));
        Err(Error::new(
            ErrorCode::SymbolKind,
            format!("'{name}' is a {found} of the image, expected a {asked}"),
        ))
    }

    /// Returns the sizes of a kernel's arguments, if the image describes them. A kernel without
    /// arguments has a description of one zero, because C has no empty variables.
    fn argument_sizes(&self, kernel: &str) -> Option<Vec<u32>> {
        let described = self.image.constant(&format!("{ARGUMENTS_OF}{kernel}"))?;
        let sizes = described.as_chunks().0.iter().map(|size| u32::from_ne_bytes(*size));
        let sizes: Vec<u32> = sizes.collect();
        Some(if sizes == [0] { Vec::new() } else { sizes })
    }
}

impl Module<HostBackend> for HostModule {
    fn kernel(&self, name: &str) -> Result<(Arc<HostKernel>, KernelAttributes)> {
        let Symbol { address, bytes: code_bytes, .. } = self.symbol_of(SymbolKind::Kernel, name)?;
        let mut attributes = KernelAttributes::default();
        attributes.address = address;
        attributes.code_bytes = code_bytes;
        attributes.max_group_items = MOST_GROUP_ITEMS;
        let code = match kernels::description(&*self.image, name)? {
            Some(description) => {
                let notes = self.image.notes().for_kernel(name);
                let mode = kernels::mode(name, description.form, notes)?;
                let required = description.required_group;
                description.complete(&mut attributes);
                attributes.static_shared_bytes = notes.shared_bytes;
                check_shared(name, notes.shared_bytes)?;
                // SAFETY: the address is a function's: the checked image has it in executable
                // memory, or its resolver chose it. The image guarantees that the function has this
                // form.
                let entry = unsafe { std::mem::transmute::<usize, GroupEntry>(address as usize) };
                let grid = notes.has_grid_barrier;
                Code::Groups(GroupCode::new(entry, mode, grid, required))
            }
            None => {
                attributes.argument_sizes = self.argument_sizes(name);
                // SAFETY: as above, for LLVM's host form.
                Code::Host(unsafe { std::mem::transmute::<usize, HostEntry>(address as usize) })
            }
        };
        let late = match &self.image {
            Image::Whole(..) => None,
            Image::Lazy(image) => Some(LateKernel::new(image)),
        };
        let lines = Arc::downgrade(self.image.lines());
        let kernel = Kernel { name: name.to_owned(), code, lines };
        Ok((Arc::new(HostKernel { kernel, late }), attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        let Symbol { address, bytes, .. } = self.symbol_of(SymbolKind::Global, name)?;
        Ok(GlobalAddress::new(address, bytes))
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let mut symbols = self.image.symbols()?;
        let names = symbols.iter().map(|(name, _)| name);
        if names.clone().any(|name| name.starts_with(KERNEL_DESCRIPTION_PREFIX)) {
            let known: HashSet<String> = names.filter_map(|name| described(name)).collect();
            symbols.retain(|(name, kind)| *kind != SymbolKind::Kernel || known.contains(name));
        }
        symbols.retain(|(name, _)| described(name).is_none());
        Ok(symbols)
    }

    fn run_constructors(&self) -> Result<()> {
        self.image.construct()
    }

    fn run_destructors(&self) -> Result<()> {
        self.image.destruct()
    }

    fn unload(self) -> Result<()> {
        match self.image {
            Image::Whole(image, _) => Modes::preserved(|| image.unload()),
            Image::Lazy(image) => {
                drop(image);
                Ok(())
            }
        }
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        let tracker = variable(self.image.symbol_in_memory(POOL_TRACKER));
        let Some(tracker) = tracker.filter(|tracker| tracker.bytes >= 32) else {
            return Ok(None);
        };
        // SAFETY: `LoadedImage` promises that the variable's bytes are readable.
        let [allocations, total_bytes, min_bytes, max_bytes] =
            unsafe { pointer::<[u64; 4]>(tracker.address).read_unaligned() };
        Ok(Some(PoolTracker { allocations, total_bytes, min_bytes, max_bytes }))
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        profile::read(&self.image.profile_parts(), self.image.compiler())
    }
}

/// Returns the name of the kernel that a variable of this name describes.
fn described(variable: &str) -> Option<String> {
    DESCRIPTIONS.iter().find_map(|prefix| variable.strip_prefix(prefix)).map(str::to_owned)
}

/// # Errors
/// `Unsupported` for more shared memory than a group can have.
fn check_shared(kernel: &str, bytes: u64) -> Result<()> {
    if bytes <= SHARED_BYTES {
        return Ok(());
    }
    let message = format!(
        "kernel '{kernel}' declares {bytes} bytes of shared memory, expected at most {SHARED_BYTES}"
    );
    Err(Error::new(ErrorCode::Unsupported, message))
}

fn not_found(kind: SymbolKind, name: &str) -> Error {
    let what = kind_name(kind);
    Error::new(ErrorCode::NotFound, format!("the image has no {what} '{name}'"))
}

fn kind_name(kind: SymbolKind) -> &'static str {
    match kind {
        SymbolKind::Kernel => "kernel",
        SymbolKind::Global => "global variable",
        _ => "symbol of another kind",
    }
}
