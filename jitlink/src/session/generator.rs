//! Generators: where symbols come from that no object of a library defines.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};

use super::Library;
use crate::elf::{Archive, ElfObject, Home, NO_MACHINE_CODE, SLIM, is_bitcode};
use crate::graph::LinkGraph;
use crate::runtime::ProcessTls;
use crate::{Error, Result};

/// Defines symbols when they are asked for (ORC's `DefinitionGenerator`).
///
/// It is called while the session links, from the thread that asked for a link, and must not use the session itself.
pub trait Generator: Send + Sync {
    /// Defines those of `requests` that it knows. A name that it does not know is not an error.
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>>;
}

/// A symbol that is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is a thread-local variable.
    pub thread_local: bool,
    /// Whether it may stay undefined: an archive's member is not taken for it.
    pub weak: bool,
    /// Whether an object of the library must define it, as code with hidden visibility says: an address is no answer.
    pub hidden: bool,
}

/// What a generator gives.
#[derive(Debug, Clone)]
pub enum Generated {
    /// The symbol `requests[index]` is at an address.
    Address {
        /// Which request this answers.
        index: usize,
        /// The address on the executing side.
        address: u64,
    },
    /// The symbol `requests[index]` is a thread-local variable of a library of the process.
    ThreadLocal {
        /// Which request this answers.
        index: usize,
        /// Where it is.
        variable: ProcessTls,
    },
    /// An object, to be added to the library. It answers the requests for the names that it defines. If the link for which it
    /// was asked fails, it is taken away again.
    Object {
        /// Its name, for errors.
        name: String,
        /// Its bytes.
        bytes: Bytes,
    },
    /// A graph that is made by hand, to be added to the library as [`Library::add_graph`] does, and taken away again in the same case.
    Graph(GeneratedGraph),
    /// The symbol `requests[index]` is what another library of the session has by that name, itself or by its generators (ORC's
    /// `ReexportsGenerator`). It is linked there.
    Reexport {
        /// Which request this answers.
        index: usize,
        /// The other library.
        library: Library,
    },
}

/// A graph that is made when it is needed. Making it must not use the session, and give the same each time.
#[derive(Clone)]
pub struct GeneratedGraph(Arc<dyn Fn() -> LinkGraph + Send + Sync>);

impl GeneratedGraph {
    /// What `make` fills by hand.
    pub fn new(make: impl Fn() -> LinkGraph + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(super) fn make(&self) -> LinkGraph {
        (self.0)()
    }
}

impl fmt::Debug for GeneratedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratedGraph").finish_non_exhaustive()
    }
}

impl<F> Generator for F
where
    F: Fn(&[Request<'_>]) -> Result<Vec<Generated>> + Send + Sync,
{
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        self(requests)
    }
}

/// The symbols of this process: the program's and those of the libraries that it was linked with or has opened globally (ORC's
/// `DynamicLibrarySearchGenerator::GetForCurrentProcess`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessSymbols;

impl Generator for ProcessSymbols {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        // SAFETY: RTLD_DEFAULT is not a handle that could be closed.
        unsafe { look_up(libc::RTLD_DEFAULT, requests) }
    }
}

/// The symbols of a dynamic library that this opens, and closes when it is dropped (ORC's `DynamicLibrarySearchGenerator::Load`).
/// Code that uses its symbols must be gone by then.
#[derive(Debug)]
pub struct DynamicLibrary(NonNull<c_void>);

// SAFETY: a handle of dlopen may be used from any thread.
unsafe impl Send for DynamicLibrary {}
// SAFETY: as above, also at the same time.
unsafe impl Sync for DynamicLibrary {}

impl DynamicLibrary {
    /// Opens a library by path, or by a name that the dynamic linker finds. Runs its constructors.
    ///
    /// # Errors
    /// [`Error::Open`] with what the dynamic linker says.
    ///
    /// # Safety
    /// The library's constructors must be sound to run, and its destructors when this is dropped.
    pub unsafe fn open(path: &Path) -> Result<Self> {
        let failed = |problem: String| Error::Open { path: path.display().to_string(), problem };
        let name =
            CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| failed(e.to_string()))?;
        // SAFETY: promised by the caller.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(|| failed(last_error()))
    }
}

impl Drop for DynamicLibrary {
    fn drop(&mut self) {
        // SAFETY: the handle is from dlopen and closed once; promised by the opener.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

impl Generator for DynamicLibrary {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        // SAFETY: the handle is open while this lives.
        unsafe { look_up(self.0.as_ptr(), requests) }
    }
}

/// The members of a static archive, each given when one of its symbols is asked for (ORC's `StaticLibraryDefinitionGenerator`)
/// by a reference that is not weak.
pub struct StaticArchive {
    members: Vec<(String, Bytes)>,
    /// The first member that defines each symbol.
    defines: HashMap<Vec<u8>, usize>,
}

impl StaticArchive {
    /// Reads what the members define. The bytes are shared with the objects that are linked.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a damaged archive. Members that are not objects for this linker are left out. A warning in the log
    /// tells of those for link-time optimization, whose names are somewhere else.
    pub fn new(name: &str, bytes: Bytes) -> Result<Self> {
        let members = Archive::read(name, &bytes)?.members;
        let mut defines = HashMap::new();
        for (index, (name, bytes)) in members.iter().enumerate() {
            let object = match ElfObject::read(name, bytes.clone()) {
                Ok(object) => object,
                Err(error) => {
                    if is_bitcode(bytes) {
                        log::warn!("{error}");
                    }
                    continue;
                }
            };
            let view = object.view();
            for symbol in view.first_global..view.symbols.len() as u32 {
                let home = view.home(symbol);
                if matches!(home, Home::Common) && view.symbol_name(symbol) == SLIM {
                    log::warn!("{name}: {NO_MACHINE_CODE}");
                } else if !matches!(home, Home::Undefined) {
                    defines.entry_ref(view.symbol_name(symbol)).or_insert(index);
                }
            }
        }
        Ok(Self { members, defines })
    }

    /// The members' names and bytes, in order.
    pub fn members(&self) -> &[(String, Bytes)] {
        &self.members
    }
}

impl Generator for StaticArchive {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        let mut given = HashSet::new();
        let requests = requests.iter().filter(|request| !request.weak);
        let wanted = requests.filter_map(|request| self.defines.get(request.name.as_bytes()));
        Ok(wanted
            .filter(|member| given.insert(**member))
            .map(|member| &self.members[*member])
            .map(|(name, bytes)| object(name, bytes))
            .collect())
    }
}

fn object(name: &str, bytes: &Bytes) -> Generated {
    Generated::Object { name: name.to_owned(), bytes: bytes.clone() }
}

/// # Safety
/// `library` must be an open handle, or `RTLD_DEFAULT`.
unsafe fn look_up(library: *mut c_void, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
    let mut found = Vec::new();
    for (index, request) in requests.iter().enumerate().filter(|(_, request)| !request.hidden) {
        let Ok(name) = CString::new(request.name) else { continue };
        if request.thread_local {
            // SAFETY: promised by the caller.
            let variable = unsafe { ProcessTls::find(library, &name) }?;
            found.extend(variable.map(|variable| Generated::ThreadLocal { index, variable }));
            continue;
        }
        // SAFETY: promised by the caller.
        if let Some(address) = unsafe { address_of(library, &name) } {
            found.push(Generated::Address { index, address });
        }
    }
    Ok(found)
}

/// # Safety
/// `library` must be an open handle, or `RTLD_DEFAULT`.
unsafe fn address_of(library: *mut c_void, name: &CStr) -> Option<u64> {
    // An object names a version after an at sign.
    let bytes = name.to_bytes();
    let address = match memchr::memchr(b'@', bytes) {
        Some(at) => {
            let symbol = CString::new(&bytes[..at]).ok()?;
            let version = bytes[at..].iter().copied().skip_while(|byte| *byte == b'@');
            let version = CString::new(version.collect::<Vec<u8>>()).ok()?;
            // SAFETY: promised by the caller.
            unsafe { libc::dlvsym(library, symbol.as_ptr(), version.as_ptr()) }
        }
        // SAFETY: promised by the caller.
        None => unsafe { libc::dlsym(library, name.as_ptr()) },
    };
    (!address.is_null()).then_some(address as u64)
}

fn last_error() -> String {
    // SAFETY: the string belongs to this thread until its next call of the dynamic linker.
    unsafe {
        let error = libc::dlerror();
        if error.is_null() {
            "unknown error".to_owned()
        } else {
            CStr::from_ptr(error).to_string_lossy().into_owned()
        }
    }
}
