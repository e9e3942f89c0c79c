//! Sessions: libraries of objects, and look-ups that link what they need.

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

/// Links objects for one process, this one or another (ORC's `ExecutionSession` with an `ObjectLinkingLayer`). Any thread may use
/// it; links of one session happen one after the other.
///
/// Dropping the last handle of a session and its libraries gives all memory back, without running destructors: see
/// [`Library::deinitialize`].
pub struct Session(Arc<Shared>);

/// A named table of symbols of a session (ORC's `JITDylib`). Cheap to clone; it lives as long as the session.
#[derive(Clone)]
pub struct Library {
    session: Arc<Shared>,
    id: LibraryId,
}

/// What a session is made of.
pub struct SessionBuilder {
    architecture: Option<Architecture>,
    process: Option<Arc<dyn TargetProcess>>,
    memory: Option<Arc<dyn MemoryManager>>,
    static_tls: Option<&'static StaticTls>,
    options: Options,
}

/// Objects of a library that a look-up links though nothing needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Also {
    /// Objects that have constructors. A session that [prunes](SessionBuilder::with_pruning) keeps of them what the constructors need.
    Constructors,
    /// All that have been added.
    All,
}

struct Shared {
    architecture: Architecture,
    memory: Arc<dyn MemoryManager>,
    /// What executes the code, if anything does.
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
    debug: Option<DebugSupport>,
    listing: Option<Listing>,
    rebinds_process_data: bool,
    /// Which data of the process may be copied, by its name.
    copies: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Options {
    /// Whether parts of an object may not be in what is linked.
    fn removes_blocks(&self) -> bool {
        self.prunes || !self.passes.is_empty()
    }
}

impl Session {
    /// A session for this process with memory of this process.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a processor that is neither x86-64 nor AArch64.
    ///
    /// # Safety
    /// As for [`SessionBuilder::build`].
    pub unsafe fn new() -> Result<Self> {
        // SAFETY: promised by the caller.
        unsafe { Self::builder().build() }
    }

    /// A session with other choices.
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

    /// The instruction set that it links for.
    pub fn architecture(&self) -> Architecture {
        self.0.architecture
    }

    /// The process that executes its code, if any does.
    pub fn process(&self) -> Option<Arc<dyn TargetProcess>> {
        self.0.runtime.as_ref().map(|runtime| runtime.shared_process())
    }

    /// How long its links have taken by now.
    pub fn times(&self) -> LinkTimes {
        self.0.state.lock().times
    }

    /// A new library. Its name is for messages.
    pub fn create_library(&self, name: &str) -> Library {
        let id = self.0.state.lock().add_library(name);
        Library { session: Arc::clone(&self.0), id }
    }
}

impl SessionBuilder {
    /// Links for code that this process executes: the one that links, unless said otherwise.
    pub fn with_process(mut self, process: Arc<dyn TargetProcess>) -> Self {
        self.process = Some(process);
        self
    }

    /// Links for this instruction set: that of the process, unless said otherwise.
    pub fn with_architecture(mut self, architecture: Architecture) -> Self {
        self.architecture = Some(architecture);
        self
    }

    /// Takes memory from this manager, which must be of the process that executes: that process's own, unless said otherwise.
    pub fn with_memory(mut self, memory: Arc<dyn MemoryManager>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Links several objects at once on so many threads: 1, unless said otherwise.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// Where memory should lie. [`Placement::Low`] is chosen by itself for a link of code that is not position-independent; code
    /// that will be linked together with such code later wants it too.
    pub fn with_placement(mut self, placement: Placement) -> Self {
        self.options.placement = placement;
        self
    }

    /// Takes out of each object what nothing reaches from the symbols that are looked up. What was taken out is not there for
    /// later look-ups.
    pub fn with_pruning(mut self) -> Self {
        self.options.prunes = true;
        self
    }

    /// Undefined symbols get this address instead of being errors.
    pub fn with_phony_externals(mut self, address: u64) -> Self {
        self.options.phony_externals = Some(address);
        self
    }

    /// Runs these passes over every graph.
    pub fn with_passes(mut self, passes: Passes) -> Self {
        self.options.passes = passes;
        self
    }

    /// Tells debuggers and profilers about what is linked.
    pub fn with_debug(mut self, debug: DebugSupport) -> Self {
        self.options.debug = Some(debug);
        self
    }

    /// Has the process that executes list what is linked with the entry of a program ([`Library::link_program`]) as one of its libraries.
    /// That is closed when the first of these objects is removed, or with the session.
    pub fn with_program_listing(mut self, listing: Listing) -> Self {
        self.options.listing = Some(listing);
        self
    }

    /// Puts thread-local variables of code that wants them at a fixed offset from the thread pointer into this reserve of this process.
    /// Unless said otherwise it is the one that the process that executes has
    /// [set aside](longshore_orc_rt::set_static_tls), if it has.
    pub fn with_static_tls(mut self, reserve: &'static StaticTls) -> Self {
        self.static_tls = Some(reserve);
        self
    }

    /// Makes the libraries of the process use the copies of their data that code which is not position-independent gets, as
    /// `stdout`, `environ` or `std::cout`: what either side writes there the other one reads. It is what the dynamic linker does for
    /// a program with copy relocations. Without it such a copy keeps what the data was when the code was linked.
    ///
    /// It is right for a process that is there to run this program, and not for one that runs plugins. Other threads must not
    /// use the data while code is linked that gets copies, nor while these go: with the last object that uses them, or with the
    /// session. They are copied back then; addresses of them that anyone has kept are addresses of nothing.
    ///
    /// The executable's own data is copied and no more, and so is what has a copy of another library or session already. Code
    /// that was linked before the copy was made, and libraries that are opened afterwards, use the original.
    pub fn with_rebound_process_data(mut self) -> Self {
        self.options.rebinds_process_data = true;
        self
    }

    /// Copies only data of the process with names that `may_be_copied` accepts: all, unless said otherwise. It is for sessions that
    /// do not rebind, whose copies are right for data that does not change. Other data is out of the reach of code that is not
    /// position-independent: a link of code that refers to it fails with [`Error::Relocation`]. It is called while the session
    /// links, and must not use the session itself.
    pub fn with_copied_process_data(
        mut self,
        may_be_copied: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.options.copies = Box::new(may_be_copied);
        self
    }

    /// A session whose code is executed: by the process that was chosen, else by this one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the architecture is not that of the process, if the process lacks something of `longshore-orc-rt`,
    /// and if something was chosen that only this process can do while another one executes: debug support, and a reserve of this
    /// process.
    ///
    /// # Safety
    /// What is linked becomes part of the process: its frames are given to the unwinder, its indirect functions are called, its
    /// generators' addresses are believed. The memory is that process's. So everything that is added must be as sound to have in that
    /// process as a library that it opens. Damage in an object's headers, tables and relocations is found; damage in its code and its
    /// frames cannot be.
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

    /// A session whose code nobody executes: nothing is registered with any process, none of the code is called, and the
    /// linker's own functions are not offered.
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

    /// Whether a process can do what was chosen.
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
                "debuggers and profilers are told about code of this process only; link for this \
                 process, or leave debug support out"
                    .to_owned()
            }
            _ if self.static_tls.is_some() => {
                "a reserve of static thread-local storage of this process is of no use to another \
                 one, which sets its own aside"
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
    /// Adds an object. It is linked when one of its symbols is needed. The bytes are kept until then.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Unsupported`] for bytes that are not an object for this session's architecture,
    /// [`Error::Duplicate`] if it defines a symbol that the library has; nothing has changed then.
    pub fn add_object(&self, name: &str, bytes: Bytes) -> Result<Object> {
        let mut state = self.session.state.lock();
        let added = self.session.add_elf(&mut state, self.id, name, bytes)?;
        Ok(self.session.handle(added))
    }

    /// Adds a graph that `make` fills by hand. It is linked when one of its symbols is needed: from a graph that `make` gives
    /// then, which must be the same each time. It must not use the session.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a graph of another architecture, [`Error::Malformed`] for one with a name that has a zero in it,
    /// [`Error::Duplicate`] if it defines a symbol that the library has;
    /// nothing has changed then.
    pub fn add_graph(
        &self,
        make: impl Fn() -> LinkGraph + Send + Sync + 'static,
    ) -> Result<Object> {
        let added = self.session.add_made(&mut self.session.state.lock(), self.id, make)?;
        Ok(self.session.handle(added))
    }

    /// Adds every member of an archive as an object (a linker's `--whole-archive`). For members that are pulled in when they are
    /// needed add a [`StaticArchive`] as a generator.
    ///
    /// # Errors
    /// As for [`Self::add_object`]; nothing has changed then.
    pub fn add_whole_archive(&self, name: &str, bytes: &Bytes) -> Result<Vec<Object>> {
        self.add_objects(Archive::read(name, bytes)?.members)
    }

    /// Adds an object or every member of an archive, whichever the bytes are.
    ///
    /// # Errors
    /// As for [`Self::add_object`].
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
    /// [`Error::Duplicate`], and [`Error::Malformed`] for a name with a zero in it.
    pub fn define_absolute(&self, name: &str, address: u64) -> Result<()> {
        self.session.state.lock().define_absolute(self.id, name, address)
    }

    /// Defines `alias` as another name of `symbol`: a look-up that comes to this library goes on for `symbol`, here and in the
    /// libraries after it (ORC's `symbolAliases`). `symbol` may be defined later, and may be an alias too.
    ///
    /// # Errors
    /// [`Error::Duplicate`], and [`Error::Malformed`] for an alias with a zero in it.
    pub fn define_alias(&self, alias: &str, symbol: &str) -> Result<()> {
        let mut state = self.session.state.lock();
        // An address that nobody sees keeps others from defining the name.
        state.define_absolute(self.id, alias, 0)?;
        state
            .library_mut(self.id)
            .aliases
            .insert(alias.as_bytes().into(), symbol.as_bytes().into());
        Ok(())
    }

    /// Lets `__wrap_SYMBOL` stand between a symbol and the objects of the library that refer to it and do not define it themselves
    /// (a system linker's `--wrap`): they get `__wrap_SYMBOL`, and for `__real_SYMBOL` they get the symbol. To be called before
    /// these objects are linked. Look-ups by name are not changed.
    pub fn wrap(&self, symbol: &str) {
        let mut state = self.session.state.lock();
        let wrapped = &mut state.library_mut(self.id).wrapped;
        let (wrap, real) = (format!("__wrap_{symbol}"), format!("__real_{symbol}"));
        wrapped.insert(symbol.as_bytes().into(), wrap.into_bytes().into());
        wrapped.insert(real.into_bytes().into(), symbol.as_bytes().into());
    }

    /// Adds a generator, which is asked for what neither the library nor the generators before it define.
    pub fn add_generator(&self, generator: impl Generator + 'static) {
        self.session.state.lock().library_mut(self.id).generators.push(Arc::new(generator));
    }

    /// The libraries in which names are looked up after this one, in order (ORC's `setLinkOrder`). Hidden symbols are found only
    /// in the library that refers to them.
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

    /// The address of a symbol. Links what defines it, and what that needs. Blocks for that time.
    ///
    /// # Errors
    /// [`Error::Undefined`] with everything that nothing defines, and whatever went wrong in the objects that were linked;
    /// nothing has been linked then.
    pub fn lookup(&self, name: &str) -> Result<u64> {
        let found = self.lookup_all(&[(name, Lookup::Required)])?[0];
        found.ok_or_else(|| {
            Error::Undefined(vec![Undefined { symbol: name.to_owned(), file: String::new() }])
        })
    }

    /// The addresses of several symbols, in their order; `None` for those that are [`Lookup::Optional`] and undefined. What they
    /// need is linked together.
    ///
    /// # Errors
    /// As for [`Self::lookup`].
    pub fn lookup_all(&self, names: &[(&str, Lookup)]) -> Result<Vec<Option<u64>>> {
        self.session.lookup(self.id, names)
    }

    /// Links a program as a system linker does, which knows no second link: what its entry needs, what these further names need that
    /// may be undefined, and other objects of this library. `__start_x` and `__stop_x` are bounds of the sections of all of them.
    /// Returns the address of the entry; `None` if it is [`Lookup::Optional`] and undefined.
    ///
    /// # Errors
    /// As for [`Self::lookup`], and [`Error::Unsupported`] for an entry that is not in executable memory; nothing has been linked then.
    pub fn link_program(
        &self,
        entry: (&str, Lookup),
        undefined: &[&str],
        also: Also,
    ) -> Result<Option<u64>> {
        self.session.link_program(self.id, entry, undefined, also)
    }

    /// Links the objects that have constructors, and what they need, and runs nothing. [`Self::initialize`] does it too.
    ///
    /// # Errors
    /// As for [`Self::lookup`].
    pub fn link_constructors(&self) -> Result<()> {
        self.session.link_constructors(self.id)
    }

    /// Links all objects that have been added, and what they need.
    ///
    /// # Errors
    /// As for [`Self::lookup`].
    pub fn link_all(&self) -> Result<()> {
        self.session.link_all(self.id)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let linked = state.take_linked();
        // No thread may call into the code any more that is about to go: so scopes go before the memory.
        let released = Released { scopes: state.exit_scopes().collect(), ..Released::default() };
        log_failure("giving back what a session has", self.give_back(linked, released));
    }
}

impl Shared {
    fn handle(self: &Arc<Self>, (id, generation): (ObjectId, u32)) -> Object {
        Object { session: Arc::clone(self), id, generation }
    }

    /// The client of the process that executes.
    fn runtime(&self) -> Result<&Runtime> {
        self.runtime.as_deref().ok_or_else(|| Error::Unsupported {
            file: "this session".into(),
            problem: "was built without execution, so nothing can be run".into(),
        })
    }
}
