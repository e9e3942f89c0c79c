//! Generators: the sources of symbols that no object of a library defines.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use longshore_orc_rt::ProcessTls;

use super::runtime::log_failure;
use super::{Library, Lookup};
use crate::Result;
use crate::elf::{Archive, DefinitionPlace, ElfObject, NO_MACHINE_CODE, SLIM, is_bitcode};
use crate::graph::LinkGraph;
use crate::process::{
    InProcess, ProcessLibrary, ProcessSymbol, SymbolQuery, SymbolRequest, TargetProcess,
};

/// A source of symbols on demand (ORC's `DefinitionGenerator`).
///
/// The session calls it during a link, on the thread that requested the link, so it must not use
/// the session itself.
pub trait Generator: Send + Sync {
    /// Defines the requested symbols that it knows. An unknown name is not an error.
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>>;

    /// Defines the requested symbols for a session whose code `process` executes, if any does. A
    /// generator of the process's symbols looks them up there; the default ignores the process.
    fn generate_for(
        &self,
        process: Option<&dyn TargetProcess>,
        requests: &[Request<'_>],
    ) -> Result<Vec<Generated>> {
        _ = process;
        self.generate(requests)
    }
}

/// A requested symbol.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// The symbol's name.
    pub name: &'a str,
    /// Whether it is a thread-local variable.
    pub thread_local: bool,
    /// Whether it may stay undefined: such a request adds no member of an archive.
    pub weak: bool,
    /// Whether an object of the library must define it, as code with hidden visibility requires; an
    /// address does not satisfy the request.
    pub hidden: bool,
}

/// A generator's definition.
#[derive(Debug, Clone)]
pub enum Generated {
    /// An address for the symbol `requests[index]`.
    Address {
        /// The index of the request.
        index: usize,
        /// The address on the executing side.
        address: u64,
    },
    /// A thread-local variable of a library of the process, for the symbol `requests[index]`.
    ThreadLocal {
        /// The index of the request.
        index: usize,
        /// The variable's place.
        variable: ProcessTls,
    },
    /// An object to add to the library, which satisfies the requests for the names that it defines.
    /// The session removes it again if the current link fails.
    Object {
        /// The object's name, for errors.
        name: String,
        /// The object's bytes.
        bytes: Bytes,
    },
    /// A graph made by hand, added to the library as by [`Library::add_graph`]. The session removes
    /// it again if the current link fails.
    Graph(GeneratedGraph),
    /// A definition in another library of the session, its own or its generators', for the symbol
    /// `requests[index]` (ORC's `ReexportsGenerator`). It is linked there.
    Reexport {
        /// The index of the request.
        index: usize,
        /// The other library.
        library: Library,
    },
}

/// A graph made on demand. Its function must not use the session, and must return the same graph
/// each time.
#[derive(Clone)]
pub struct GeneratedGraph(Arc<dyn Fn() -> LinkGraph + Send + Sync>);

impl GeneratedGraph {
    /// Wraps the function that makes the graph.
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

/// The symbols of the process that executes the code, or of this one if none does (ORC's
/// `DynamicLibrarySearchGenerator::GetForCurrentProcess`). They are the symbols of the program, and
/// of libraries that it was linked with or has opened globally.
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

/// The symbols of a dynamic library that is opened in a process, and closed on drop (ORC's
/// `DynamicLibrarySearchGenerator::Load`). Code that uses its symbols must be gone by then.
pub struct DynamicLibrary {
    process: Arc<dyn TargetProcess>,
    library: ProcessLibrary,
}

impl DynamicLibrary {
    /// Opens a library in this process by path, or by a name that the dynamic linker finds. Runs
    /// its constructors.
    ///
    /// # Errors
    /// [`Error::Open`](crate::Error::Open) with the dynamic linker's message.
    ///
    /// # Safety
    /// The library's constructors must be sound to run, and its destructors on drop.
    pub unsafe fn open(path: &Path) -> Result<Self> {
        // SAFETY: promised by the caller.
        unsafe { Self::open_in(this_process()?, path) }
    }

    /// Opens a library in a process, whose dynamic linker finds it.
    ///
    /// # Errors
    /// The errors of [`Self::open`], and the process's errors.
    ///
    /// # Safety
    /// The same as for [`Self::open`], in that process.
    pub unsafe fn open_in(process: Arc<dyn TargetProcess>, path: &Path) -> Result<Self> {
        // SAFETY: promised by the caller.
        let library = crate::wait(unsafe { process.open_library(path) })?;
        Ok(Self { process, library })
    }
}

impl Drop for DynamicLibrary {
    fn drop(&mut self) {
        // SAFETY: the library is closed once, here; the opener promised that its destructors are
        // sound to run.
        let closed = crate::wait(unsafe { self.process.close_library(self.library) });
        log_failure("closing a library", closed);
    }
}

impl Generator for DynamicLibrary {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        look_up(&*self.process, self.library, requests)
    }
}

/// The members of a static archive, each added for the first reference to one of its symbols that
/// is not weak (ORC's `StaticLibraryDefinitionGenerator`).
pub struct StaticArchive {
    members: Vec<(String, Bytes)>,
    /// Index of the first member that defines each symbol.
    defines: HashMap<Vec<u8>, usize>,
}

impl StaticArchive {
    /// Reads the members' definitions. The linked objects share the bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for a damaged archive. Members that are not
    /// objects for this linker are left out. For members compiled for link-time optimization,
    /// whose names are elsewhere, the log has a warning.
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
                let definition_place = view.definition_place(symbol);
                if matches!(definition_place, DefinitionPlace::Common)
                    && view.symbol_name(symbol) == SLIM
                {
                    log::warn!("{name}: {NO_MACHINE_CODE}");
                } else if !matches!(definition_place, DefinitionPlace::Undefined) {
                    defines.entry_ref(view.symbol_name(symbol)).or_insert(index);
                }
            }
        }
        Ok(Self { members, defines })
    }

    /// Reads the names and bytes of an archive's members, in order, without reading their
    /// definitions.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for a damaged archive.
    pub fn read_members(name: &str, bytes: &Bytes) -> Result<Vec<(String, Bytes)>> {
        Ok(Archive::read(name, bytes)?.members)
    }

    /// Returns the members' names and bytes, in order.
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

/// Returns this process, for look-ups.
fn this_process() -> Result<Arc<InProcess>> {
    static HERE: LazyLock<Result<Arc<InProcess>>> =
        LazyLock::new(|| InProcess::new().map(Arc::new));
    HERE.clone()
}

/// Returns the definitions of the requests by a library of a process. The library must be open.
fn look_up(
    process: &dyn TargetProcess,
    library: ProcessLibrary,
    requests: &[Request<'_>],
) -> Result<Vec<Generated>> {
    let asked = requests.iter().enumerate();
    let asked = asked.filter(|(_, request)| !request.hidden && !request.name.contains('\0'));
    let (indices, names): (Vec<usize>, Vec<SymbolQuery<'_>>) = asked
        .map(|(index, request)| {
            let Request { name, thread_local, .. } = *request;
            (index, SymbolQuery { name, thread_local, lookup: Lookup::Optional })
        })
        .unzip();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let request = SymbolRequest { library, names: &names };
    // SAFETY: the generators here keep their libraries open until they are dropped.
    let found = crate::wait(unsafe { process.lookup(&[request]) })?;
    let found = indices.into_iter().zip(found.into_iter().flatten());
    let generated = |(index, symbol): (usize, Option<ProcessSymbol>)| match symbol? {
        ProcessSymbol::Address(address) => Some(Generated::Address { index, address }),
        ProcessSymbol::ThreadLocal(variable) => Some(Generated::ThreadLocal { index, variable }),
    };
    Ok(found.filter_map(generated).collect())
}
