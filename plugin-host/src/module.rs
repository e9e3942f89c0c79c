//! A loaded image: a shared object, checked, copied into memory without a name, and opened by the
//! system's loader from there.
//!
//! **Kernels** are the functions that the image itself exports, **globals** its exported variables
//! (thread-local ones are none). What its libraries export is not the image's.
//!
//! **Constructors and destructors** are not run by the loader but by [`Module::run_constructors`]
//! and [`Module::run_destructors`], which follow glibc's order and arguments: `DT_INIT`, then
//! `DT_INIT_ARRAY`, each called with `(argc, argv, envp)`; `DT_FINI_ARRAY` in reverse, then
//! `DT_FINI`. Handlers of `atexit` and of C++ statics run with the latter. Two things count as
//! failures of the device's code:
//! - an entry of an array that is not code of the image. It is not called; constructors stop
//!   there, destructors go on;
//! - an exported variable `int __longshore_constructor_status` or `__longshore_destructor_status`
//!   that is not zero after the step.
//!
//! **Kernel descriptions** are optional: an exported array of 32-bit numbers
//! `__longshore_arguments_<kernel>` holds the size of each argument in bytes. The host holds
//! launches of that kernel against it.
//!
//! Libraries that an image needs are the process's, loaded by their plain names on the system's
//! search path; their constructors are run by the loader.

mod functions;
mod library;
mod profile;

use crate::HostBackend;
use crate::elf::{self, Image, Symbol};
use library::Library;
use longshore_plugin_api::{
    Acceptance, Error, ErrorCode, GlobalAddress, ImageBytes, KernelAttributes, Module, PoolTracker,
    ProfileSection, Result, SymbolKind,
};
use object::elf::{STT_COMMON, STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use std::ffi::c_void;
use std::sync::Arc;

/// What a kernel is called as: `arguments[i]` is the address of the `i`-th argument's value.
pub(crate) type KernelEntry = unsafe extern "C" fn(arguments: *mut *mut c_void);

/// Functions that linkers put into every image.
const LINKER_MADE: [&[u8]; 2] = [b"_init", b"_fini"];
const POOL_TRACKER: &str = "__omp_rtl_device_memory_pool_tracker";
/// Before a kernel's name: the variable that describes its arguments.
const ARGUMENTS_OF: &str = "__longshore_arguments_";

/// A kernel in LLVM's host form. Valid until its module is unloaded.
pub struct HostKernel {
    entry: KernelEntry,
    name: String,
}

/// A loaded image. If its constructors were run and its destructors were not, its memory stays
/// when it is unloaded: handlers that it registered would be called at the program's end.
pub struct HostModule {
    image: Image,
    bytes: ImageBytes,
    library: Library,
}

/// Whether [`HostModule::load`] would try this image. Reads its headers.
pub(crate) fn accepts(image: &[u8]) -> Acceptance {
    match elf::recognise(image) {
        Ok(()) => Acceptance::Accepted,
        Err(error) => Acceptance::Refused(error.message().to_owned()),
    }
}

impl HostKernel {
    /// The code.
    pub(crate) fn entry(&self) -> KernelEntry {
        self.entry
    }

    /// Its name in the image.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl HostModule {
    /// Checks an image and opens a copy of it. Runs none of its constructors. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for an image that is malformed or not for this machine, `NotFound` for a
    /// library that it needs and that is not there, `LinkFailure` for undefined symbols and
    /// whatever else the loader refuses, `OutOfResources` and `HostIo` for the copy.
    pub fn load(image: ImageBytes) -> Result<HostModule> {
        let checked = elf::validate(image.get())?;
        let library = Library::open(image.get(), &checked)?;
        Ok(HostModule { image: checked, bytes: image, library })
    }

    /// The exported symbol of this name.
    fn symbol(&self, name: &str) -> Option<Symbol> {
        let mut found = self.image.symbols.exported(self.bytes.get());
        found.find(|(symbol, _)| *symbol == name.as_bytes()).map(|(_, symbol)| symbol)
    }

    /// The exported symbol of this name, if it is of this kind.
    fn symbol_of(&self, kind: SymbolKind, name: &str) -> Result<Symbol> {
        let symbol = self.symbol(name).filter(|symbol| kind_of(name.as_bytes(), symbol).is_some());
        let symbol = symbol.ok_or_else(|| not_found(kind, name))?;
        if kind_of(name.as_bytes(), &symbol) == Some(kind) {
            return Ok(symbol);
        }
        let (found, asked) = match kind {
            SymbolKind::Kernel => ("global variable", "kernel"),
            SymbolKind::Global => ("kernel", "global variable"),
        };
        Err(Error::new(
            ErrorCode::SymbolKind,
            format!("'{name}' is a {found} of the image, expected a {asked}"),
        ))
    }

    /// The sizes of a kernel's arguments, if the image describes them. No arguments have a
    /// variable of one zero, as there are no empty variables.
    fn argument_sizes(&self, kernel: &str) -> Option<Vec<u32>> {
        let symbol = self.variable(&format!("{ARGUMENTS_OF}{kernel}"))?;
        let sizes: *const u32 = self.library.pointer(symbol.value);
        // SAFETY: the checked image has the variable's `size` bytes in a segment, which stays
        // mapped while `self.library` is open; all segments are readable.
        let sizes = (0..symbol.size as usize / 4).map(|i| unsafe { sizes.add(i).read_unaligned() });
        let sizes: Vec<u32> = sizes.collect();
        Some(if sizes == [0] { Vec::new() } else { sizes })
    }

    /// The exported variable of this name.
    fn variable(&self, name: &str) -> Option<Symbol> {
        let is_global =
            |symbol: &Symbol| kind_of(name.as_bytes(), symbol) == Some(SymbolKind::Global);
        self.symbol(name).filter(is_global)
    }

    /// Reads a variable of the image that is made of 64-bit numbers; `None` if it has no such.
    fn read_words<const N: usize>(&self, name: &str) -> Option<[u64; N]> {
        let symbol = self.variable(name).filter(|symbol| symbol.size >= 8 * N as u64)?;
        // SAFETY: the checked image has the variable's `size` bytes in a segment, which stays
        // mapped while `self.library` is open; all segments are readable.
        Some(unsafe { self.library.pointer::<[u64; N]>(symbol.value).read_unaligned() })
    }
}

impl Module<HostBackend> for HostModule {
    fn kernel(&self, name: &str) -> Result<(Arc<HostKernel>, KernelAttributes)> {
        let symbol = self.symbol_of(SymbolKind::Kernel, name)?;
        let address = if symbol.kind() == STT_GNU_IFUNC {
            self.library.lookup(name)?
        } else {
            self.library.address(symbol.value)
        };
        // SAFETY: the address is that of a function: the checked image has it in an executable
        // segment, or its resolver chose it. That it takes LLVM's host form is the image's promise.
        let entry = unsafe { std::mem::transmute::<usize, KernelEntry>(address as usize) };
        let code_bytes = if symbol.kind() == STT_FUNC { symbol.size } else { 0 };
        let argument_sizes = self.argument_sizes(name);
        let attributes =
            KernelAttributes { address, code_bytes, argument_sizes, ..KernelAttributes::default() };
        Ok((Arc::new(HostKernel { entry, name: name.to_owned() }), attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        let symbol = self.symbol_of(SymbolKind::Global, name)?;
        Ok(GlobalAddress { address: self.library.address(symbol.value), bytes: symbol.size })
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let exported = self.image.symbols.exported(self.bytes.get());
        Ok(exported
            .filter_map(|(name, symbol)| {
                let described = name.starts_with(ARGUMENTS_OF.as_bytes());
                let kind = kind_of(name, &symbol).filter(|_| !described)?;
                Some((String::from_utf8_lossy(name).into_owned(), kind))
            })
            .collect())
    }

    fn run_constructors(&self) -> Result<()> {
        functions::run_constructors(self)
    }

    fn run_destructors(&self) -> Result<()> {
        functions::run_destructors(self)
    }

    fn unload(self) -> Result<()> {
        self.library.close()
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        let words = self.read_words::<4>(POOL_TRACKER);
        Ok(words.map(|[allocations, total_bytes, min_bytes, max_bytes]| PoolTracker {
            allocations,
            total_bytes,
            min_bytes,
            max_bytes,
        }))
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        Ok(profile::read(self))
    }
}

fn kind_of(name: &[u8], symbol: &Symbol) -> Option<SymbolKind> {
    match symbol.kind() {
        STT_FUNC | STT_GNU_IFUNC if !LINKER_MADE.contains(&name) => Some(SymbolKind::Kernel),
        STT_OBJECT | STT_COMMON => Some(SymbolKind::Global),
        _ => None,
    }
}

fn not_found(kind: SymbolKind, name: &str) -> Error {
    let what = match kind {
        SymbolKind::Kernel => "kernel",
        SymbolKind::Global => "global variable",
    };
    Error::new(ErrorCode::NotFound, format!("the image has no {what} '{name}'"))
}
