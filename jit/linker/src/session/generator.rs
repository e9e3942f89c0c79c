//! Generators: where symbols come from that no object of a library defines.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use longshore_orc_rt::ProcessTls;

use super::runtime::log_failure;
use super::{Library, Lookup};
use crate::Result;
use crate::elf::{Archive, ElfObject, Home, NO_MACHINE_CODE, SLIM, is_bitcode};
use crate::graph::LinkGraph;
use crate::process::{
    InProcess, ProcessLibrary, ProcessSymbol, SymbolRequest, TargetProcess, WantedSymbol,
};

/// Defines symbols when they are asked for (ORC's `DefinitionGenerator`).
///
/// It is called while the session links, from the thread that asked for a link, and must not use the session itself.
pub trait Generator: Send + Sync {
    /// Defines those of `requests` that it knows. A name that it does not know is not an error.
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>>;

    /// The same for a session whose code this process executes, if any does. A generator of what the process has asks it;
    /// others do the same for each.
    fn generate_for(
        &self,
        process: Option<&dyn TargetProcess>,
        requests: &[Request<'_>],
    ) -> Result<Vec<Generated>> {
        _ = process;
        self.generate(requests)
    }
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

/// The symbols of the process that executes the code, or of this one if none does: the program's and those of the libraries that it
/// was linked with or has opened globally (ORC's `DynamicLibrarySearchGenerator::GetForCurrentProcess`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessSymbols;

impl Generator for ProcessSymbols {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        look_up(&*this_process()?, ProcessLibrary::GLOBAL, requests)
    }

    fn generate_for(
        &self,
        process: Option<&dyn TargetProcess>,
        requests: &[Request<'_>],
    ) -> Result<Vec<Generated>> {
        match process {
            Some(process) => look_up(process, ProcessLibrary::GLOBAL, requests),
            None => self.generate(requests),
        }
    }
}

/// The symbols of a dynamic library that this opens in a process, and closes when it is dropped (ORC's
/// `DynamicLibrarySearchGenerator::Load`). Code that uses its symbols must be gone by then.
pub struct DynamicLibrary {
    process: Arc<dyn TargetProcess>,
    library: ProcessLibrary,
}

impl DynamicLibrary {
    /// Opens a library in this process by path, or by a name that the dynamic linker finds. Runs its constructors.
    ///
    /// # Errors
    /// [`Error::Open`](crate::Error::Open) with what the dynamic linker says.
    ///
    /// # Safety
    /// The library's constructors must be sound to run, and its destructors when this is dropped.
    pub unsafe fn open(path: &Path) -> Result<Self> {
        // SAFETY: promised by the caller.
        unsafe { Self::open_in(this_process()?, path) }
    }

    /// The same in a process, whose dynamic linker finds it.
    ///
    /// # Errors
    /// As for [`Self::open`], and those of a process.
    ///
    /// # Safety
    /// As for [`Self::open`], in that process.
    pub unsafe fn open_in(process: Arc<dyn TargetProcess>, path: &Path) -> Result<Self> {
        // SAFETY: promised by the caller.
        let library = crate::wait(unsafe { process.open_library(path) })?;
        Ok(Self { process, library })
    }
}

impl Drop for DynamicLibrary {
    fn drop(&mut self) {
        // SAFETY: it is closed once; promised by the opener.
        let closed = crate::wait(unsafe { self.process.close_library(self.library) });
        log_failure("closing a library", closed);
    }
}

impl Generator for DynamicLibrary {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        look_up(&*self.process, self.library, requests)
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
    /// [`Error::Malformed`](crate::Error::Malformed) for a damaged archive. Members that are not objects for this linker are left
    /// out. A warning in the log tells of those for link-time optimization, whose names are somewhere else.
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

    /// Reads the names and bytes of an archive's members, in order, and nothing of what they define.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for a damaged archive.
    pub fn read_members(name: &str, bytes: &Bytes) -> Result<Vec<(String, Bytes)>> {
        Ok(Archive::read(name, bytes)?.members)
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

/// This process, for look-ups.
fn this_process() -> Result<Arc<InProcess>> {
    static HERE: LazyLock<Result<Arc<InProcess>>> =
        LazyLock::new(|| InProcess::new().map(Arc::new));
    HERE.clone()
}

/// Those of the requests that a library of a process defines. The library must be open.
fn look_up(
    process: &dyn TargetProcess,
    library: ProcessLibrary,
    requests: &[Request<'_>],
) -> Result<Vec<Generated>> {
    let asked = requests.iter().enumerate();
    let asked = asked.filter(|(_, request)| !request.hidden && !request.name.contains('\0'));
    let (indices, names): (Vec<usize>, Vec<WantedSymbol<'_>>) = asked
        .map(|(index, request)| {
            let Request { name, thread_local, .. } = *request;
            (index, WantedSymbol { name, thread_local, lookup: Lookup::Optional })
        })
        .unzip();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let request = SymbolRequest { library, names: &names };
    // SAFETY: the generators here close libraries when they are dropped.
    let found = crate::wait(unsafe { process.lookup(&[request]) })?;
    let found = indices.into_iter().zip(found.into_iter().flatten());
    let generated = |(index, symbol): (usize, Option<ProcessSymbol>)| match symbol? {
        ProcessSymbol::Address(address) => Some(Generated::Address { index, address }),
        ProcessSymbol::ThreadLocal(variable) => Some(Generated::ThreadLocal { index, variable }),
    };
    Ok(found.filter_map(generated).collect())
}
