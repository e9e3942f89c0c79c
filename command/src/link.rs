//! `longshore link`.
//!
//! The steps are the body of [`Link::execute`]; [`program`] runs the linked code.

mod arguments;
mod dump;
mod dylib;
mod executor;
mod failure;
mod inputs;
mod instrumented;
mod kind;
mod lazy;
mod libraries;
mod names;
mod program;
mod progress;
mod response;
mod section;
mod times;
mod undefined;

use crate::failure::{Exit, Failure};
use arguments::{Absolute, Alias, SectionFile};
use clap::Args;
use dump::Dump;
use executor::Executor;
use failure::{LinkFailure, LinkInputs};
use inputs::read_all;
use lazy::LazyProgram;
use longshore_executor::controller::ExecutorProcess;
use longshore_jitlink::debug::{DebugOptions, DebugSupport};
use longshore_jitlink::memory::{Placement, SlabMemory};
use longshore_jitlink::process::{InProcess, TargetProcess};
use longshore_jitlink::session::{
    ExtraObjects, Listing, Lookup, Passes, ProcessSymbols, SessionBuilder, Stage, StaticArchive,
};
use longshore_jitlink::{Architecture, Error, Library, Session};
use longshore_orc_rt::static_tls_reserve;
use program::Program;
pub(crate) use response::expanded;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

const AFTER_LINK_HELP: &str = "\
The exit code is the program's. If the link fails, the exit code is 1, and nothing has run. With
--lazy it is 127 if the program calls a function that cannot be linked.

Examples:
  longshore link main.o parts.o --archive libz.a --dylib libm.so.6 --args -v file
  longshore link main.o --dylib libstdc++.so.6
  longshore link @objects.txt -L build/lib -lparts -lm
  longshore link main.o --executor
  longshore link --lazy main.o parts.o --archive libz.a
  longshore link --lazy main.bc parts.o
  longshore link main.o --slab-address 0x40000000 --phony-externals --dump-memory main.json";

/// Link relocatable objects in memory and run them
#[derive(Args)]
#[command(after_help = AFTER_LINK_HELP)]
pub(crate) struct Link {
    /// Objects, and archives to link whole; with --lazy also LLVM bitcode, or its assembly text
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The function to call, as main(argc, argv, envp)
    #[arg(long, value_name = "SYMBOL", default_value = "main")]
    entry: String,
    /// Link the definition of SYMBOL, if there is one, although nothing refers to it; may be
    /// repeated
    #[arg(short = 'u', long, value_name = "SYMBOL")]
    undefined: Vec<String>,
    /// The program's arguments after argv[0], which is the first FILE: the rest of the command line
    #[arg(long, value_name = "ARGUMENT", num_args = 0.., allow_hyphen_values = true)]
    args: Vec<OsString>,
    /// An archive, whose members are linked when they are needed; may be repeated
    #[arg(long, value_name = "FILE")]
    archive: Vec<PathBuf>,
    /// A shared library to open, by path or by a name that the dynamic linker finds; may be
    /// repeated
    #[arg(long, value_name = "LIBRARY")]
    dylib: Vec<PathBuf>,
    /// A library: the shared library libNAME.so, or the archive libNAME.a; -l:FILE for a file of
    /// another name; may be repeated
    #[arg(short = 'l', value_name = "NAME")]
    library: Vec<String>,
    /// A folder that -l searches before the system's folders; may be repeated
    #[arg(short = 'L', value_name = "FOLDER")]
    library_path: Vec<PathBuf>,
    /// Exclude the symbols of this process, which come from the C library and other shared
    /// libraries
    #[arg(long, conflicts_with = "dylib")]
    no_process_symbols: bool,
    /// Define NAME as another name of SYMBOL; may be repeated
    #[arg(long, value_name = "NAME=SYMBOL", value_parser = arguments::alias)]
    alias: Vec<Alias>,
    /// Link references to SYMBOL to __wrap_SYMBOL, and references to __real_SYMBOL to SYMBOL; may
    /// be repeated
    #[arg(long, value_name = "SYMBOL")]
    wrap: Vec<String>,
    /// Define NAME at an address, decimal or with 0x; may be repeated
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = arguments::absolute)]
    abs: Vec<Absolute>,
    /// Add a read-only section with the bytes of a file, and symbols at offsets in it; may be
    /// repeated
    #[arg(long, value_name = "NAME,FILE[@SYMBOL=OFFSET,...]", value_parser = arguments::section)]
    sectcreate: Vec<SectionFile>,
    /// Put undefined symbols at 0xbad
    #[arg(long)]
    phony_externals: bool,
    /// Link every FILE, even if the entry does not need it
    #[arg(long)]
    link_all: bool,
    /// Link every FILE, and let libraries that the program opens use its functions and variables,
    /// as with -rdynamic of gcc and clang
    #[arg(long, visible_alias = "export-dynamic")]
    rdynamic: bool,
    /// Link each FILE and each member of an --archive at the first call of one of its functions,
    /// except FILEs with constructors. The newest clang on PATH compiles FILEs of LLVM bitcode
    /// function by function
    #[arg(long, conflicts_with_all = ["link_all", "rdynamic", "gc_sections", "phony_externals", "no_exec", "slab_allocate", "slab_address", "slab_page_size"])]
    lazy: bool,
    /// Leave out the sections that nothing needs
    #[arg(long)]
    gc_sections: bool,
    /// Link several objects at once, on N threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Link, and run nothing
    #[arg(long)]
    no_exec: bool,
    /// Write the linked code and data to FILE as JSON, before the program runs
    #[arg(long, value_name = "FILE")]
    dump_memory: Option<PathBuf>,
    /// Print the graph of each object to standard error
    #[arg(long)]
    show_graph: bool,
    /// Print how long each step of the link took to standard error
    #[arg(long)]
    show_times: bool,
    /// Announce the linked code to gdb and lldb
    #[arg(long)]
    gdb: bool,
    /// Announce the names of the linked functions to perf, in /tmp/perf-PID.map
    #[arg(long)]
    perf_map: bool,
    /// Announce the linked code to `perf inject --jit`, in a new folder below DIR
    #[arg(long, value_name = "DIR")]
    jitdump: Option<PathBuf>,
    #[command(flatten)]
    executor: Executor,
    #[command(flatten)]
    slab: Slab,
}

/// The addresses of a layout of code that is not run.
#[derive(Args)]
#[command(next_help_heading = "Layout at chosen addresses, without running the code")]
struct Slab {
    /// Size of the address range in bytes, or with the unit Kb, Mb or Gb [default: 512Mb]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    slab_allocate: Option<u64>,
    /// The first address [default: 0x10000000]
    #[arg(long, value_name = "ADDRESS", value_parser = arguments::number)]
    slab_address: Option<u64>,
    /// Size of a page in bytes [default: 4096]
    #[arg(long, value_name = "N", value_parser = arguments::number)]
    slab_page_size: Option<u64>,
}

/// The place that the code is linked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The process that runs the program: this process or an executor.
    Process,
    /// Another place: the code sees no symbols of this process.
    Elsewhere,
}

impl Link {
    /// Links and runs the program. Does not return if this process runs the program to its end.
    pub(crate) fn execute(&self) -> Result<ExitCode, Failure> {
        self.check_output()?;
        let mut inputs = read_all(&self.files)?;
        if self.lazy {
            lazy::assemble_texts(&mut inputs)?;
        }
        let (first, architecture) = inputs::first_object(&inputs[0]);
        let place = self.place(&first, architecture)?;
        self.warn_of_options_without_effect(place);
        for section in &self.sectcreate {
            inputs.push(section::object(section, architecture)?);
        }
        let libraries = libraries::find(&self.library, &self.library_path)?;
        let archives = read_all(&[&self.archive[..], &libraries.archives].concat())?;
        let executor = match place {
            Place::Process => self.executor.start(architecture, &first)?,
            Place::Elsewhere => None,
        };
        if place == Place::Process {
            self.open_libraries(&libraries.shared, executor.as_ref())?;
        }
        let dump = self.dump_memory.as_ref().map(|_| Dump::new(&inputs, &archives));
        let dump = dump.map(Arc::new);
        let session = self.session(architecture, place, dump.as_ref(), executor.as_ref())?;
        let entry = self.entry.clone();
        let lazy = self.lazy;
        let given = Arc::new(LinkInputs { inputs, archives, architecture, entry, lazy });
        let explain = |failure: LinkFailure| failure.explain(&given);
        let program = self.add(&session, &given, place).map_err(explain)?;
        let entry = self.link(&program, &given, place).map_err(explain)?;
        if let (Some(dump), Some(file)) = (&dump, &self.dump_memory) {
            dump.write(architecture, &self.abs, file)?;
        }
        if self.show_times {
            // A failed write to standard error cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "{}", times::table(&session.times()));
        }
        match entry {
            Some(entry) if self.runs(place) => {
                let ended = program.run(entry, &self.files[0], &self.args);
                match executor {
                    Some(executor) => executor::end_as(&executor, ended),
                    None => match ended? {},
                }
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn open_libraries(
        &self,
        by_name: &[PathBuf],
        executor: Option<&Arc<ExecutorProcess>>,
    ) -> Result<(), Failure> {
        let open = |process: &dyn TargetProcess| {
            self.dylib.iter().chain(by_name).try_for_each(|library| dylib::open(process, library))
        };
        match executor {
            Some(executor) => open(&**executor),
            None => open(&InProcess::new()?),
        }
    }

    /// Checks that the dump does not replace an input.
    fn check_output(&self) -> Result<(), Failure> {
        let Some(output) = &self.dump_memory else { return Ok(()) };
        let sections = self.sectcreate.iter().map(|section| &section.file);
        let mut inputs = self.files.iter().chain(&self.archive).chain(&self.dylib).chain(sections);
        let Some(input) = inputs.find(|input| inputs::are_one_file(input, output)) else {
            return Ok(());
        };
        let message = format!(
            "--dump-memory '{}' would replace '{}', which is linked",
            output.display(),
            input.display()
        );
        Err(Failure::new(Exit::Usage, message).or_hint("name another file with --dump-memory"))
    }

    fn warn_of_options_without_effect(&self, place: Place) {
        let elsewhere = "nothing is linked for this process";
        let warn = |is_given: bool, option: &str, why: &str| {
            if is_given {
                log::warn!("{option} has no effect: {why}");
            }
        };
        if place == Place::Elsewhere {
            warn(!self.dylib.is_empty(), "--dylib", elsewhere);
            warn(self.gdb, "--gdb", elsewhere);
            warn(self.perf_map, "--perf-map", elsewhere);
            warn(self.jitdump.is_some(), "--jitdump", elsewhere);
        }
        warn(!self.args.is_empty() && !self.runs(place), "--args", "nothing is run");
        warn(self.rdynamic && !self.runs(place), "-rdynamic", "nothing is run");
    }

    fn runs(&self, place: Place) -> bool {
        place == Place::Process && !self.no_exec
    }

    /// Returns the place that objects of an architecture are linked for. `first` is the name of the
    /// first object.
    fn place(&self, first: &str, architecture: Architecture) -> Result<Place, Failure> {
        if self.slab.is_wanted() {
            return Ok(Place::Elsewhere);
        }
        if self.executor.is_wanted() {
            return Ok(Place::Process);
        }
        if Architecture::native() == Some(architecture) {
            return Ok(Place::Process);
        }
        if self.no_exec {
            return Ok(Place::Elsewhere);
        }
        let message = format!(
            "'{first}' is for {}, whose code this machine does not run",
            architecture.triple()
        );
        Err(Failure::new(Exit::Runtime, message)
            .or_hint("link it without running it, with --no-exec or --slab-address"))
    }

    fn session(
        &self,
        architecture: Architecture,
        place: Place,
        dump: Option<&Arc<Dump>>,
        executor: Option<&Arc<ExecutorProcess>>,
    ) -> Result<Session, Failure> {
        let mut builder = Session::builder()
            .with_architecture(architecture)
            .with_threads(self.threads)
            .with_passes(self.passes(dump));
        if self.gc_sections {
            builder = builder.with_pruning();
        }
        if self.phony_externals {
            builder = builder.with_phony_externals(0xbad);
        }
        if self.runs(place) {
            let listing = if self.rdynamic { Listing::Exports } else { Listing::Names };
            builder = builder.with_program_listing(listing);
        }
        if self.lazy && architecture == Architecture::X86_64 {
            // Code that is linked later may be position-dependent, and refer to code linked before.
            builder = builder.with_placement(Placement::Low);
        }
        if self.slab.is_wanted() {
            builder = builder.with_memory(Arc::new(self.slab.memory()?));
        }
        Ok(match place {
            // SAFETY: the user has started this process to run the given program.
            Place::Process => unsafe { self.in_process(builder, executor)?.build() }?,
            Place::Elsewhere => builder.build_without_execution()?,
        })
    }

    /// Adds the settings of code that is executed: process, thread-local storage and debug support.
    fn in_process(
        &self,
        builder: SessionBuilder,
        executor: Option<&Arc<ExecutorProcess>>,
    ) -> Result<SessionBuilder, Failure> {
        let builder = match executor.cloned() {
            Some(executor) => builder.with_process(executor),
            None => builder.with_static_tls(static_tls_reserve!(STATIC_TLS).map_err(Error::from)?),
        };
        let builder = builder.with_rebound_process_data();
        let options =
            DebugOptions { gdb: self.gdb, perf_map: self.perf_map, jitdump: self.jitdump.clone() };
        if options == DebugOptions::default() {
            return Ok(builder);
        }
        Ok(builder.with_debug(DebugSupport::new(options)?))
    }

    fn passes(&self, dump: Option<&Arc<Dump>>) -> Passes {
        let mut passes = Passes::default();
        if self.show_graph {
            passes.add(Stage::PostFixup, |graph| {
                // A failed write to standard error cannot be reported anywhere.
                let _ = write!(std::io::stderr(), "{graph:?}");
                Ok(())
            });
        }
        if log::log_enabled!(log::Level::Info) {
            passes.add(Stage::PostFixup, |graph| {
                progress::log(graph);
                Ok(())
            });
        }
        if let Some(dump) = dump.cloned() {
            passes.add(Stage::PostFixup, move |graph| dump.add(graph));
        }
        passes
    }

    /// Creates the program from all inputs that define symbols.
    fn add(
        &self,
        session: &Session,
        given: &Arc<LinkInputs>,
        place: Place,
    ) -> Result<Program, LinkFailure> {
        let library = session.create_library("program");
        for Absolute { name, address } in &self.abs {
            library.define_absolute(name, *address)?;
        }
        let (wrapped, aliases) = arguments::wrapped(&self.alias);
        for Alias { name, symbol } in aliases {
            library.define_alias(name, symbol)?;
        }
        wrapped
            .into_iter()
            .chain(self.wrap.iter().map(String::as_str))
            .for_each(|symbol| library.wrap(symbol));
        let program = match self.lazy {
            true => Program::Lazy(LazyProgram::add(session, &library, given)?),
            false => whole_program(&library, given)?,
        };
        library.add_generator(instrumented::warn_of_calls_without_effect);
        if place == Place::Process && !self.no_process_symbols {
            library.add_generator(ProcessSymbols);
        }
        Ok(program)
    }

    /// Links, and returns the address of the entry; `None` for an optional entry without a
    /// definition.
    fn link(
        &self,
        program: &Program,
        given: &LinkInputs,
        place: Place,
    ) -> Result<Option<u64>, LinkFailure> {
        let runtimes = instrumented::runtime_symbols(given).iter().copied();
        let undefined: Vec<&str> =
            self.undefined.iter().map(String::as_str).chain(runtimes).collect();
        let library = match program {
            Program::Whole(library) => library,
            Program::Lazy(program) => {
                let is_another_name = self.abs.iter().any(|absolute| absolute.name == self.entry)
                    || self.alias.iter().any(|alias| alias.name == self.entry);
                return Ok(Some(program.link(&self.entry, is_another_name, &undefined)?));
            }
        };
        let lookup = match self.link_all && !self.runs(place) {
            true => Lookup::Optional,
            false => Lookup::Required,
        };
        let links_all = self.link_all || self.rdynamic;
        let also = if links_all { ExtraObjects::All } else { ExtraObjects::Constructors };
        Ok(library.link_program((&self.entry, lookup), &undefined, also)?)
    }
}

fn whole_program(library: &Library, given: &LinkInputs) -> Result<Program, LinkFailure> {
    for input in &given.inputs {
        library.add(&input.name, input.bytes.clone())?;
    }
    for archive in &given.archives {
        library.add_generator(StaticArchive::new(&archive.name, archive.bytes.clone())?);
    }
    Ok(Program::Whole(library.clone()))
}

/// Bytes reserved for thread-local variables that code accesses at a fixed offset from the thread
/// pointer.
const STATIC_TLS: usize = 16 << 10;

impl Slab {
    fn is_wanted(&self) -> bool {
        [self.slab_allocate, self.slab_address, self.slab_page_size].iter().any(Option::is_some)
    }

    fn memory(&self) -> Result<SlabMemory, Failure> {
        let address = self.slab_address.unwrap_or(0x1000_0000);
        let size = self.slab_allocate.unwrap_or(512 << 20);
        SlabMemory::new(address, size, self.slab_page_size.unwrap_or(4096))
            .map_err(|error| Failure::new(Exit::Usage, error.to_string()))
    }
}
