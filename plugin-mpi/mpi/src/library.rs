//! The search for a library.

use crate::Implementation;
use crate::abi::{Constants, mpich, open_mpi, standard};
use crate::error::LoadError;
use crate::table::Functions;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// File names of each implementation, in the order of the search.
const NAMES: [(Implementation, &[&str]); 3] = [
    (Implementation::OpenMpi, &["libmpi.so.40"]),
    (Implementation::Mpich, &["libmpich.so.12", "libmpi.so.12"]),
    (Implementation::Standard, &["libmpi_abi.so.1", "libmpi_abi.so.0"]),
];

/// Libraries that this crate has bound to, which stay loaded.
static BOUND: Mutex<Vec<&Mpi>> = Mutex::new(Vec::new());

/// An MPI library. It stays loaded until the process ends.
pub struct Mpi {
    pub(crate) functions: Functions,
    pub(crate) constants: Constants<usize>,
    implementation: Implementation,
    path: PathBuf,
    /// Address of its `MPI_Init`, which tells libraries apart.
    identity: usize,
}

impl Mpi {
    /// Returns the library that the process has loaded already, if one is found. Symbols of the
    /// process come first, so that a profiling library in front of MPI stays in front. Then
    /// follow libraries that were loaded without global symbols, as by a Python module.
    pub fn already_loaded() -> Option<&'static Mpi> {
        if let Some(bound) = bind_to_process() {
            return bound.ok();
        }
        let names = NAMES.iter().flat_map(|(_, names)| *names);
        names.into_iter().find_map(|name| load(OsStr::new(name), libc::RTLD_NOLOAD).ok())
    }

    /// Opens the library in this file, or of this name in the folders of the system's loader. Its
    /// symbols become global, as Open MPI loads components that refer to them. A process may have
    /// only one MPI library: call [`already_loaded`](Self::already_loaded) first.
    ///
    /// # Errors
    /// The loader's message, or a function that the library lacks.
    pub fn open(path: &Path) -> Result<&'static Mpi, LoadError> {
        load(path.as_os_str(), 0)
            .map_err(|reason| LoadError::from_reason(path.display().to_string(), reason))
    }

    /// Opens the first library found, unless the process has [one](Self::already_loaded); then
    /// returns that. File names of the `preferred` implementation are tried first.
    ///
    /// # Errors
    /// The names that were tried, each with its reason; or the reason against the library that the
    /// process has, as a second one would mix their symbols.
    pub fn open_default(preferred: Option<Implementation>) -> Result<&'static Mpi, LoadError> {
        if let Some(Err(error)) = bind_to_process() {
            return Err(error);
        }
        if let Some(loaded) = Self::already_loaded() {
            return Ok(loaded);
        }
        let mut names = NAMES;
        names.sort_by_key(|(implementation, _)| Some(*implementation) != preferred);
        let mut tried = Vec::new();
        for name in names.iter().flat_map(|(_, names)| *names) {
            match load(OsStr::new(name), 0) {
                Ok(mpi) => return Ok(mpi),
                Err(reason) => tried.push(((*name).to_owned(), reason)),
            }
        }
        Err(LoadError { tried })
    }

    /// Returns the binary interface of the library.
    pub fn implementation(&self) -> Implementation {
        self.implementation
    }

    /// Returns the file of the library, as the system's loader names it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Binds to the MPI among the global symbols of the process, if it has one.
fn bind_to_process() -> Option<Result<&'static Mpi, LoadError>> {
    let process = Symbols::new(Library::this());
    let identity = process.address("MPI_Init")?;
    let bound = bind(process, identity);
    Some(
        bound.map_err(|reason| {
            LoadError::from_reason(path_of(identity).display().to_string(), reason)
        }),
    )
}

/// Loads a library with further flags of `dlopen`, or returns the reason against it.
fn load(name: &OsStr, flags: c_int) -> Result<&'static Mpi, String> {
    // SAFETY: the caller of this crate names an MPI library, whose initializers may run here.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL | flags) };
    let symbols = Symbols::new(library.map_err(|error| {
        // The error itself only names the function.
        let loader = std::error::Error::source(&error).map(ToString::to_string);
        loader.unwrap_or_else(|| error.to_string())
    })?);
    let identity = symbols.address("MPI_Init").ok_or("it lacks MPI_Init")?;
    bind(symbols, identity)
}

/// Returns the binding to the library with this `MPI_Init`, made at the first call.
fn bind(symbols: Symbols, identity: usize) -> Result<&'static Mpi, String> {
    let mut bound = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mpi) = bound.iter().find(|mpi| mpi.identity == identity) {
        return Ok(mpi);
    }
    // A profiling library in front of MPI defines no function of this prefix.
    let path = path_of(symbols.address("PMPI_Init").unwrap_or(identity));
    let implementation = implementation(&symbols, &path)?;
    let constants = constants(&symbols, implementation);
    let constants = constants.map_err(|missing| format!("it lacks {missing}"))?;
    // SAFETY: the library has `MPI_Init`, so it is an MPI library.
    let functions = unsafe { Functions::find(&symbols) };
    let functions = functions.map_err(|missing| format!("it lacks {missing}"))?;
    let mpi = Box::leak(Box::new(Mpi { functions, constants, implementation, path, identity }));
    bound.push(mpi);
    Ok(mpi)
}

/// Returns the binary interface of a library, or the reason why it has none that this crate knows.
fn implementation(symbols: &Symbols, path: &Path) -> Result<Implementation, String> {
    let name = path.file_name().unwrap_or_default();
    let is_named_so = name.as_bytes().starts_with(b"libmpi_abi.so");
    if !is_named_so && symbols.address(open_mpi::CONSTANTS.comm_world).is_some() {
        return Ok(Implementation::OpenMpi);
    }
    match standard_version(symbols) {
        Some(1) => Ok(Implementation::Standard),
        Some(version @ 2..) => Err(format!("it has version {version} of the ABI, expected 1")),
        // MPICH 4.3 has a library of this name with the constants of a draft.
        _ if is_named_so => Err("it has a draft of the standard ABI, expected version 1".into()),
        _ => Ok(Implementation::Mpich),
    }
}

/// Returns the major version of the standard ABI that a library of MPI 5 has, -1 for another ABI.
fn standard_version(symbols: &Symbols) -> Option<c_int> {
    type Function = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    // SAFETY: by the MPI standard, the function has these parameters.
    let function: Function = unsafe { symbols.function("MPI_Abi_get_version") }?;
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: the outputs are local variables, and the call needs no initialized MPI.
    let code = unsafe { function(&mut major, &mut minor) };
    (code == 0).then_some(major)
}

/// Returns the constants of a library, or the name of a symbol that it lacks.
fn constants(
    symbols: &Symbols,
    implementation: Implementation,
) -> Result<Constants<usize>, &'static str> {
    match implementation {
        Implementation::OpenMpi => {
            open_mpi::CONSTANTS.resolve(|name| symbols.address(name).ok_or(name))
        }
        Implementation::Mpich => Ok(mpich::CONSTANTS),
        Implementation::Standard => Ok(standard::CONSTANTS),
    }
}

/// Returns the file that contains an address.
fn path_of(address: usize) -> PathBuf {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the output is a local variable, and any address is accepted.
    let known = unsafe { libc::dladdr(address as *const c_void, &mut found) };
    if known == 0 || found.dli_fname.is_null() {
        return PathBuf::new();
    }
    // SAFETY: the loader's name of a loaded file is a string.
    let name = unsafe { CStr::from_ptr(found.dli_fname as *const c_char) };
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}

/// Symbols of a library that stays loaded, or of the process.
pub(crate) struct Symbols(ManuallyDrop<Library>);

impl Symbols {
    fn new(library: Library) -> Symbols {
        Symbols(ManuallyDrop::new(library))
    }

    /// Returns the address of a symbol.
    fn address(&self, name: &str) -> Option<usize> {
        // SAFETY: the pointer is not used as one.
        unsafe { self.function::<*const c_void>(name) }.map(|address| address as usize)
    }

    /// Returns the symbol as `F`, a pointer. It stays valid, as the library stays loaded.
    ///
    /// # Safety
    /// The symbol has the type `F`.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: promised by the caller.
        unsafe { self.0.get::<F>(name) }.ok().map(|symbol| *symbol)
    }
}
