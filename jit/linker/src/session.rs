//! Sessions: libraries of objects, and look-ups that link the objects they need.

mod batch;
mod bounds;
mod commons;
mod copies;
mod definitions;
mod entry;
mod externals;
mod finalize;
mod gather;
mod generator;
mod initializers;
mod library;
mod link;
mod listing;
mod object;
mod object_state;
mod parallel;
mod pass;
mod resolve;
mod run;
mod runtime;
mod runtime_symbols;
mod state;
mod symbols;
mod table;
mod targets;
mod times;

use std::sync::Arc;

use bytes::Bytes;
use longshore_orc_rt::StaticTls;
use longshore_orc_rt::service::Released;
use parking_lot::Mutex;

use crate::debug::DebugSupport;
use crate::elf::{Archive, is_archive};
use crate::graph::LinkGraph;
use crate::memory::{InProcessMemory, MemoryManager, Placement};
use crate::process::{InProcess, TargetProcess};
use crate::{Architecture, Error, Result, Undefined};

pub use crate::lookup::Lookup;
pub use generator::{
    DynamicLibrary, Generated, GeneratedGraph, Generator, ProcessSymbols, Request, StaticArchive,
};
pub use listing::Listing;
pub use object::{Object, Removal};
pub use pass::{Delivery, Notes, Pass, Passes, Stage};
pub use run::MainArguments;
pub use times::LinkTimes;

use entry::{LibraryId, ObjectId};
use runtime::{Runtime, log_failure};
use state::State;

/// A linker for one process, this one or another (ORC's `ExecutionSession` with an
/// `ObjectLinkingLayer`). Any thread may use it; links of one session happen one after the other.
///
/// Dropping the last handle of a session and its libraries gives all memory back, without running
/// destructors: see [`Library::deinitialize`].
pub struct Session(Arc<Shared>);

/// A named table of symbols of a session (ORC's `JITDylib`). A library is cheap to clone, and lives
/// as long as the session.
#[derive(Clone)]
pub struct Library {
    session: Arc<Shared>,
    id: LibraryId,
}

/// The settings of a session.
pub struct SessionBuilder {
    architecture: Option<Architecture>,
    process: Option<Arc<dyn TargetProcess>>,
    memory: Option<Arc<dyn MemoryManager>>,
    static_tls: Option<&'static StaticTls>,
    options: Options,
}

/// The objects of a library that a look-up links although nothing needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraObjects {
    /// Objects that have constructors. A session that [prunes](SessionBuilder::with_pruning) keeps
    /// only the parts that the constructors need.
    Constructors,
    /// All objects that have been added.
    All,
}

struct Shared {
    architecture: Architecture,
    memory: Arc<dyn MemoryManager>,
    /// The client of the executing process; `None` for code that is never executed.
    runtime: Option<Arc<Runtime>>,
    options: Options,
    state: Mutex<State>,
}

struct Options {
    threads: usize,
    placement: Placement,
    prunes: bool,
    phony_externals: Option<u64>,
    passes: Passes,
    debug: Option<Arc<DebugSupport>>,
    listing: Option<Listing>,
    rebinds_process_data: bool,
    /// The function that accepts data of the process for copying, by its name.
    copies: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Options {
    /// Returns whether blocks of an object may be missing from the linked code.
    fn removes_blocks(&self) -> bool {
        self.prunes || !self.passes.is_empty()
    }
}

impl Session {
    /// Creates a session for this process with memory of this process.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a processor that is neither x86-64 nor AArch64.
    ///
    /// # Safety
    /// The same as for [`SessionBuilder::build`].
    pub unsafe fn new() -> Result<Self> {
        // SAFETY: promised by the caller.
        unsafe { Self::builder().build() }
    }

    /// Creates a builder, for a session with other settings.
    pub fn builder() -> SessionBuilder {
        SessionBuilder {
            architecture: None,
            process: None,
            memory: None,
            static_tls: None,
            options: Options {
                threads: 1,
                placement: Placement::Anywhere,
                prunes: false,
                phony_externals: None,
                passes: Passes::default(),
                debug: None,
                listing: None,
                rebinds_process_data: false,
                copies: Box::new(|_| true),
            },
        }
    }

    /// Returns the instruction set for which the session links.
    pub fn architecture(&self) -> Architecture {
        self.0.architecture
    }

    /// Returns the process that executes the session's code; `None` for code that is never
    /// executed.
    pub fn process(&self) -> Option<Arc<dyn TargetProcess>> {
        self.0.runtime.as_ref().map(|runtime| runtime.shared_process())
    }

    /// Returns the time that the session's links have taken by now.
    pub fn times(&self) -> LinkTimes {
        self.0.state.lock().times
    }

    /// Creates a library. Its name appears in messages.
    pub fn create_library(&self, name: &str) -> Library {
        let id = self.0.state.lock().add_library(name);
        Library { session: Arc::clone(&self.0), id }
    }
}

impl SessionBuilder {
    /// Sets the process that executes the code. The default is this process.
    pub fn with_process(mut self, process: Arc<dyn TargetProcess>) -> Self {
        self.process = Some(process);
        self
    }

    /// Sets the instruction set. The default is that of the executing process.
    pub fn with_architecture(mut self, architecture: Architecture) -> Self {
        self.architecture = Some(architecture);
        self
    }

    /// Sets the memory manager, which must belong to the executing process. The default is that
    /// process's own manager.
    pub fn with_memory(mut self, memory: Arc<dyn MemoryManager>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Sets the number of threads that link several objects at once. The default is 1.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// Sets the placement of memory. A link of code that is not position-independent always uses
    /// [`Placement::Low`]; code that will be linked together with such code later wants that
    /// placement too.
    pub fn with_placement(mut self, placement: Placement) -> Self {
        self.options.placement = placement;
        self
    }

    /// Removes from each object everything that the looked-up symbols do not reach. Later look-ups
    /// do not find the removed parts.
    pub fn with_pruning(mut self) -> Self {
        self.options.prunes = true;
        self
    }

    /// Gives undefined symbols this address, instead of an error.
    pub fn with_phony_externals(mut self, address: u64) -> Self {
        self.options.phony_externals = Some(address);
        self
    }

    /// Runs these passes over every graph.
    pub fn with_passes(mut self, passes: Passes) -> Self {
        self.options.passes = passes;
        self
    }

    /// Reports linked code to debuggers and profilers. Sessions may share the reporter.
    pub fn with_debug(mut self, debug: impl Into<Arc<DebugSupport>>) -> Self {
        self.options.debug = Some(debug.into());
        self
    }

    /// Makes the executing process list the code linked with a program's entry
    /// ([`Library::link_program`]) as one of its libraries. That library is closed when the first
    /// of these objects is removed, or with the session.
    pub fn with_program_listing(mut self, listing: Listing) -> Self {
        self.options.listing = Some(listing);
        self
    }

    /// Sets the reserve in this process for thread-local variables at a fixed offset from the
    /// thread pointer. The default is the reserve that the executing process has [set
    /// aside](longshore_orc_rt::set_static_tls), if any.
    pub fn with_static_tls(mut self, reserve: &'static StaticTls) -> Self {
        self.static_tls = Some(reserve);
        self
    }

    /// Makes the process's libraries use the session's copies of their data, such as `stdout`,
    /// `environ` or `std::cout`. Code that is not position-independent gets such copies, and with
    /// this option each side reads the other side's writes. The dynamic linker does the same for a
    /// program with copy relocations. Without this option, a copy keeps the data's value at link
    /// time.
    ///
    /// The option suits a process that exists to run this program, and no process that runs
    /// plugins. Other threads must not use the data during a link that makes copies, nor while the
    /// copies go: with the last object that uses them, or with the session. The copies' values are
    /// copied back then, and any stored address of a copy dangles.
    ///
    /// Data of the executable, and data with a copy in another library or session, is copied
    /// without redirecting its users. Code linked before the copy was made, and libraries opened
    /// afterwards, use the original.
    pub fn with_rebound_process_data(mut self) -> Self {
        self.options.rebinds_process_data = true;
        self
    }

    /// Sets the function that accepts data of the process for copying, by its name. The default
    /// accepts all data.
    ///
    /// The function is for sessions that do not rebind, whose copies are right for data that does
    /// not change. Other data is out of the reach of code that is not position-independent: a link
    /// of code that refers to it fails with [`Error::Relocation`]. The session calls
    /// `may_be_copied` during links, so it must not use the session itself.
    pub fn with_copied_process_data(
        mut self,
        may_be_copied: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.options.copies = Box::new(may_be_copied);
        self
    }

    /// Creates a session whose code is executed, by the chosen process or by this one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the architecture is not that of the process, or if the process
    /// lacks a function of `longshore-orc-rt`. The same error for settings that need this process,
    /// while another one executes: debug support, and a reserve of this process.
    ///
    /// # Safety
    /// Linked code becomes part of the process: the unwinder uses its frames, its indirect
    /// functions are called, its generators' addresses are trusted. The memory is that process's.
    /// So everything that is added must be as sound in that process as a library that it opens. The
    /// linker detects damage in an object's headers, tables and relocations; it cannot detect
    /// damage in code and frames.
    pub unsafe fn build(mut self) -> Result<Session> {
        let process = match self.process.take() {
            Some(process) => process,
            None => {
                let memory = self.memory.take();
                let memory = memory.unwrap_or_else(|| Arc::new(InProcessMemory::new()));
                Arc::new(InProcess::with_memory(memory)?)
            }
        };
        self.check_process(&*process)?;
        let architecture = process.facts().architecture;
        let memory = self.memory.unwrap_or_else(|| process.memory());
        let runtime = Runtime::new(process, self.static_tls.map(StaticTls::address))?;
        let (runtime, options) = (Some(Arc::new(runtime)), self.options);
        let state = Mutex::new(State::default());
        Ok(Session(Arc::new(Shared { architecture, memory, runtime, options, state })))
    }

    /// Creates a session whose code is never executed: it registers nothing with a process, calls
    /// none of the code, and does not offer the linker's own functions.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if no architecture was chosen and the program's is not supported.
    pub fn build_without_execution(self) -> Result<Session> {
        let unsupported = || Error::Unsupported {
            file: "this program".into(),
            problem: "is for a processor that is not supported; choose an architecture".into(),
        };
        let architecture = self.architecture.or(Architecture::native()).ok_or_else(unsupported)?;
        let memory = self.memory.unwrap_or_else(|| Arc::new(InProcessMemory::new()));
        let (runtime, options) = (None, self.options);
        let state = Mutex::new(State::default());
        Ok(Session(Arc::new(Shared { architecture, memory, runtime, options, state })))
    }

    /// Checks whether a process supports the settings.
    fn check_process(&self, process: &dyn TargetProcess) -> Result<()> {
        let facts = process.facts();
        let problem = match self.architecture {
            Some(architecture) if architecture != facts.architecture => {
                format!(
                    "it executes {:?}, the session links for {architecture:?}",
                    facts.architecture
                )
            }
            _ if facts.is_this_process => return Ok(()),
            _ if self.options.debug.is_some() => {
                "debuggers and profilers get reports on code of this process only; link for this \
                 process, or leave debug support out"
                    .to_owned()
            }
            _ if self.static_tls.is_some() => {
                "a reserve of static thread-local storage of this process is useless to another \
                 process, which sets its own aside; leave the reserve out"
                    .to_owned()
            }
            _ => return Ok(()),
        };
        let file = match facts.is_this_process {
            true => "this program".to_owned(),
            false => format!("the process for {}", facts.triple),
        };
        Err(Error::Unsupported { file, problem })
    }
}

impl Library {
    /// Adds an object, which is linked when one of its symbols is needed. The library keeps the
    /// bytes until then.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Unsupported`] for bytes that are not an object for this
    /// session's architecture, [`Error::Duplicate`] if it defines a symbol that the library has. On
    /// error, nothing has changed.
    pub fn add_object(&self, name: &str, bytes: Bytes) -> Result<Object> {
        let mut state = self.session.state.lock();
        let added = self.session.add_elf(&mut state, self.id, name, bytes)?;
        Ok(self.session.handle(added))
    }

    /// Adds a graph that `make` fills by hand, which is linked when one of its symbols is needed.
    /// The session calls `make` again then, and the graph must be the same each time. `make` must
    /// not use the session.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a graph of another architecture, [`Error::Malformed`] for a
    /// symbol name with a zero byte, [`Error::Duplicate`] if the graph defines a symbol that the
    /// library has. On error, nothing has changed.
    pub fn add_graph(
        &self,
        make: impl Fn() -> LinkGraph + Send + Sync + 'static,
    ) -> Result<Object> {
        let added = self.session.add_made(&mut self.session.state.lock(), self.id, make)?;
        Ok(self.session.handle(added))
    }

    /// Adds every member of an archive as an object (a linker's `--whole-archive`). To add members
    /// on demand, add a [`StaticArchive`] as a generator.
    ///
    /// # Errors
    /// The errors of [`Self::add_object`]. On error, nothing has changed.
    pub fn add_whole_archive(&self, name: &str, bytes: &Bytes) -> Result<Vec<Object>> {
        self.add_objects(Archive::read(name, bytes)?.members)
    }

    /// Adds an object or every member of an archive, depending on the bytes.
    ///
    /// # Errors
    /// The errors of [`Self::add_object`].
    pub fn add(&self, name: &str, bytes: Bytes) -> Result<Vec<Object>> {
        if is_archive(&bytes) {
            self.add_whole_archive(name, &bytes)
        } else {
            Ok(vec![self.add_object(name, bytes)?])
        }
    }

    /// Defines a symbol at an address (ORC's `absoluteSymbols`).
    ///
    /// # Errors
    /// [`Error::Duplicate`], and [`Error::Malformed`] for a name with a zero byte.
    pub fn define_absolute(&self, name: &str, address: u64) -> Result<()> {
        self.session.state.lock().define_absolute(self.id, name, address)
    }

    /// Defines `alias` as another name of `symbol` (ORC's `symbolAliases`). A look-up of the alias
    /// that comes to this library continues for `symbol`, here and in the libraries after it.
    /// `symbol` may be defined later, and may be an alias too.
    ///
    /// # Errors
    /// [`Error::Duplicate`], and [`Error::Malformed`] for an alias with a zero byte.
    pub fn define_alias(&self, alias: &str, symbol: &str) -> Result<()> {
        let mut state = self.session.state.lock();
        // An absolute definition reserves the name. Look-ups follow the alias first, so they never
        // see its address.
        state.define_absolute(self.id, alias, 0)?;
        state
            .library_mut(self.id)
            .aliases
            .insert(alias.as_bytes().into(), symbol.as_bytes().into());
        Ok(())
    }

    /// Puts `__wrap_SYMBOL` between a symbol and the library's objects that refer to it and do not
    /// define it themselves (a system linker's `--wrap`). A reference to the symbol gets
    /// `__wrap_SYMBOL`, and one to `__real_SYMBOL` gets the symbol. Must be called before these
    /// objects are linked. Look-ups by name are not changed.
    pub fn wrap(&self, symbol: &str) {
        let mut state = self.session.state.lock();
        let wrapped = &mut state.library_mut(self.id).wrapped;
        let (wrap, real) = (format!("__wrap_{symbol}"), format!("__real_{symbol}"));
        wrapped.insert(symbol.as_bytes().into(), wrap.into_bytes().into());
        wrapped.insert(real.into_bytes().into(), symbol.as_bytes().into());
    }

    /// Adds a generator. The session calls it for symbols that neither the library nor earlier
    /// generators define.
    pub fn add_generator(&self, generator: impl Generator + 'static) {
        self.session.state.lock().library_mut(self.id).generators.push(Arc::new(generator));
    }

    /// Sets the libraries in which names are looked up after this one, in order (ORC's
    /// `setLinkOrder`). A hidden symbol is found only in the library that refers to it.
    ///
    /// # Panics
    /// If one of them is a library of another session.
    pub fn set_link_order(&self, libraries: &[&Library]) {
        for library in libraries {
            let is_ours = Arc::ptr_eq(&library.session, &self.session);
            assert!(is_ours, "a library of another session in the link order");
        }
        self.session.state.lock().library_mut(self.id).link_order =
            libraries.iter().map(|library| library.id).collect();
    }

    /// Returns the address of a symbol. Links the object that defines it, and the objects which
    /// that one needs. Blocks for that time.
    ///
    /// # Errors
    /// [`Error::Undefined`] with all undefined symbols, and the errors of the linked objects. On
    /// error, nothing has been linked.
    pub fn lookup(&self, name: &str) -> Result<u64> {
        let found = self.lookup_all(&[(name, Lookup::Required)])?[0];
        found.ok_or_else(|| {
            Error::Undefined(vec![Undefined { symbol: name.to_owned(), file: String::new() }])
        })
    }

    /// Returns the addresses of several symbols, in their order; `None` for an undefined
    /// [`Lookup::Optional`] one. The objects that they need are linked together.
    ///
    /// # Errors
    /// The errors of [`Self::lookup`].
    pub fn lookup_all(&self, names: &[(&str, Lookup)]) -> Result<Vec<Option<u64>>> {
        self.session.lookup(self.id, names)
    }

    /// Links a program as a system linker does, in a single link. The link includes the objects
    /// that the entry and the names in `undefined` need, and the library's objects in `also`. Names
    /// in `undefined` may have no definition. `__start_x` and `__stop_x` are bounds of the sections
    /// of all these objects. Returns the address of the entry; `None` for an undefined
    /// [`Lookup::Optional`] one.
    ///
    /// # Errors
    /// The errors of [`Self::lookup`], and [`Error::Unsupported`] for an entry that is not in
    /// executable memory. On error, nothing has been linked.
    pub fn link_program(
        &self,
        entry: (&str, Lookup),
        undefined: &[&str],
        also: ExtraObjects,
    ) -> Result<Option<u64>> {
        self.session.link_program(self.id, entry, undefined, also)
    }

    /// Links the objects that have constructors, and the objects that these need, and runs nothing.
    /// [`Self::initialize`] includes it.
    ///
    /// # Errors
    /// The errors of [`Self::lookup`].
    pub fn link_constructors(&self) -> Result<()> {
        self.session.link_constructors(self.id)
    }

    /// Links all added objects, and the objects that these need.
    ///
    /// # Errors
    /// The errors of [`Self::lookup`].
    pub fn link_all(&self) -> Result<()> {
        self.session.link_all(self.id)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let linked = state.take_linked();
        // No thread may call into the code while its memory goes, so scopes go before the memory.
        let released = Released { scopes: state.exit_scopes().collect(), ..Released::default() };
        log_failure("giving back the resources of a session", self.give_back(linked, released));
    }
}

impl Shared {
    fn handle(self: &Arc<Self>, (id, generation): (ObjectId, u32)) -> Object {
        Object { session: Arc::clone(self), id, generation }
    }

    /// Returns the client of the executing process.
    fn runtime(&self) -> Result<&Runtime> {
        self.runtime.as_deref().ok_or_else(|| Error::Unsupported {
            file: "this session".into(),
            problem: "was built without execution, so nothing can be run".into(),
        })
    }
}
