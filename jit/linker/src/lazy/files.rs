//! Objects and archives whose functions are linked on their first calls.

use std::convert::Infallible;
use std::ffi::CString;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::constructors::Addition;
use super::index::Index;
use super::manager::{BatchCode, Implementations, Manager};
use super::objects::Objects;
use super::source::{Defined, Source};
use super::{LazyReexports, Reexport};
use crate::Result;
use crate::elf::{Archive, ElfObject, is_archive};
use crate::session::{Generated, GeneratedGraph, Generator, Library, MainArguments, Request};

/// Files and other sources to add lazily together: see [`LazyReexports::lazily`].
#[must_use = "nothing is added before `add`"]
pub struct LazyAddition<'a> {
    lazy: &'a LazyReexports,
    library: &'a Library,
    name: String,
    objects: Vec<ElfObject>,
    sources: Vec<Arc<dyn Source>>,
}

/// Objects, archives and other sources whose functions are linked on their first calls. The handle
/// is cheap to clone; dropping it leaves them in place.
#[derive(Clone)]
pub struct LazyFiles {
    manager: Weak<Manager>,
    addition: Arc<Addition>,
}

impl LazyReexports {
    /// Adds an object, or the members of an archive, lazily: [`Self::lazily`] with one file. Each
    /// is linked when a function of it is first called, or a variable looked up. ORC's
    /// `CompileOnDemandLayer` does the same with the functions of a module.
    ///
    /// # Errors
    /// The errors of [`LazyAddition::object`], [`LazyAddition::archive`] and [`LazyAddition::add`].
    /// On error, nothing has changed.
    pub fn add_lazily(&self, library: &Library, name: &str, bytes: Bytes) -> Result<LazyFiles> {
        let addition = self.lazily(library, name);
        match is_archive(&bytes) {
            true => addition.archive(name, bytes)?.add(),
            false => addition.object(name, bytes)?.add(),
        }
    }

    /// Begins an addition of objects, archives and other sources, which together form one program
    /// or library. Its name is for messages.
    ///
    /// Each object, and each piece of the other sources, is linked when a function of it is first
    /// called, or a variable looked up. Each global function has an entry in the library, under its
    /// name. Entries are made on demand, so an addition takes only as long as reading the symbols
    /// of the objects, and the indices of the archives.
    ///
    /// The definitions are in a library of their own, from which calls lead through the entries
    /// too. If a name has several definitions, an object's definition precedes the definitions of
    /// other sources, and other sources count in their order. A name defined by an object of
    /// `library`, or by an earlier generator, keeps that definition, as for an archive's member.
    /// All other names are looked up as for an object of `library`. All parts of the addition find
    /// each other's hidden names, without entries.
    ///
    /// A session that prunes links only the parts of a piece that the first call reaches. Parts
    /// that it has pruned are not linked later.
    ///
    /// A function has the address of its entry. This also holds for code of the function's own
    /// object that takes the address from a slot or as 64 bits, as code compiled with `-fPIC` does.
    /// It holds for all code of that object if all memory of the session is
    /// [low](crate::memory::Placement::Low) and nothing is pruned. A function of two names has two
    /// addresses. Constructors run if the addition is [initialized](LazyFiles::initialize), or run
    /// as a [program](LazyFiles::run_program).
    ///
    /// ```no_run
    /// # use longshore_jitlink::{Session, lazy::LazyReexports};
    /// # fn add(session: &Session) -> longshore_jitlink::Result<()> {
    /// let lazy = LazyReexports::for_session(session)?;
    /// let library = session.create_library("program");
    /// let read = |file| std::fs::read(file).unwrap().into();
    /// let files = lazy
    ///     .lazily(&library, "program")
    ///     .object("main.o", read("main.o"))?
    ///     .object("parts.o", read("parts.o"))?
    ///     .archive("libz.a", read("libz.a"))?
    ///     .add()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lazily<'a>(&'a self, library: &'a Library, name: &str) -> LazyAddition<'a> {
        let (objects, sources) = (Vec::new(), Vec::new());
        LazyAddition { lazy: self, library, name: name.to_owned(), objects, sources }
    }
}

impl LazyAddition<'_> {
    /// Adds an object. Objects with constructors are linked when constructors first run.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) or
    /// [`Error::Unsupported`](crate::Error::Unsupported) for bytes that are not an object for this
    /// linker.
    pub fn object(mut self, name: &str, bytes: Bytes) -> Result<Self> {
        self.objects.push(ElfObject::read(name, bytes)?);
        Ok(self)
    }

    /// Adds an object, or every member of an archive as an object (a linker's `--whole-archive`),
    /// depending on the bytes.
    ///
    /// # Errors
    /// The errors of [`Self::object`].
    pub fn file(self, name: &str, bytes: &Bytes) -> Result<Self> {
        if !is_archive(bytes) {
            return self.object(name, bytes.clone());
        }
        let mut members = Archive::read(name, bytes)?.members.into_iter();
        members.try_fold(self, |addition, (name, bytes)| addition.object(&name, bytes))
    }

    /// Adds an archive. If it has an index, its members are read on demand.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) or
    /// [`Error::Unsupported`](crate::Error::Unsupported) for bytes that are not an archive for this
    /// linker.
    pub fn archive(self, name: &str, bytes: Bytes) -> Result<Self> {
        Ok(self.source(Arc::new(Index::read(name, bytes)?)))
    }

    /// Adds another source.
    pub fn source(mut self, source: Arc<dyn Source>) -> Self {
        self.sources.push(source);
        self
    }

    /// Adds all files and sources to the library.
    ///
    /// # Errors
    /// The errors of [`Library::add_object`]. On error, nothing has changed.
    pub fn add(self) -> Result<LazyFiles> {
        let Self { lazy, library, name, objects, sources: others } = self;
        let implementations = library.create_inner(&name);
        let named =
            objects.iter().map(|object| (object.name().to_string(), object.bytes().clone()));
        implementations.add_objects(named.collect())?;
        for source in &others {
            implementations.add_generator(Pieces(Arc::clone(source)));
        }
        let mut sources: Vec<Arc<dyn Source>> = vec![Arc::new(Objects::new(objects))];
        sources.extend(others);
        let addition = Arc::new(Addition::new(implementations, sources));
        let manager = Arc::downgrade(&lazy.0);
        let number = lazy.0.keep(Arc::clone(&addition));
        let made = Mutex::default();
        library.add_generator(Entries { manager: manager.clone(), number, made });
        Ok(LazyFiles { manager, addition })
    }
}

impl LazyFiles {
    /// Returns the library with the addition's own definitions. A look-up of a function there links
    /// it immediately.
    pub fn implementations(&self) -> &Library {
        &self.addition.implementations
    }

    /// Returns the definition of a name that other objects see, without linking anything; `None`
    /// for an undefined name.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for a damaged member, and the errors of a
    /// [`Source`].
    pub fn defined(&self, name: &str) -> Result<Option<Defined>> {
        self.addition.defined(name, false)
    }

    /// Returns all definitions that other objects see, in any order. Reads the symbols of all
    /// members, and links nothing.
    ///
    /// # Errors
    /// The errors of [`Self::defined`].
    pub fn all_defined(&self) -> Result<Vec<(String, Defined)>> {
        let mut all = HashMap::new();
        for source in &self.addition.sources {
            for (name, defined) in source.all_defined()? {
                all.entry(name).or_insert(defined);
            }
        }
        Ok(all.into_iter().collect())
    }

    /// Links a function as its first call does, and returns its address. Runs constructors if the
    /// addition is [initialized](Self::initialize). The function's entry is redirected on its next
    /// call.
    ///
    /// # Errors
    /// The errors of [`Library::lookup`] and [`Library::initialize`].
    pub fn link(&self, function: &str) -> Result<u64> {
        self.link_by(function, |addition| addition.implementations.lookup_own(function))
    }

    /// Links the first function of a program as [`Self::link`] does. The objects that have
    /// constructors are linked together with it, and the objects that define the names in `also`,
    /// which may be undefined. `__start_x` and `__stop_x` are bounds of the sections of all these
    /// objects.
    ///
    /// # Errors
    /// The errors of [`Self::link`].
    pub fn link_with_constructors(&self, function: &str, also: &[&str]) -> Result<u64> {
        self.link_by(function, |addition| addition.link_with_constructors(function, also))
    }

    fn link_by(&self, function: &str, link: impl FnOnce(&Addition) -> Result<u64>) -> Result<u64> {
        self.addition.prepare(function)?;
        let Some(manager) = self.manager.upgrade() else { return link(&self.addition) };
        let guard = manager.initializer_lock().take_here(self.implementations())?;
        let address = link(&self.addition)?;
        self.addition.construct(&guard)?;
        Ok(address)
    }

    /// Links the objects that have constructors, and the objects that these need, and runs nothing.
    /// [`Self::initialize`] and [`Self::run_program`] include it.
    ///
    /// # Errors
    /// The errors of [`Library::lookup`], and the errors of a [`Source`].
    pub fn link_constructors(&self) -> Result<()> {
        self.addition.link_constructors()
    }

    /// Runs the constructors of linked objects, after linking the objects that have any. From now
    /// on, a first call runs the constructors of the objects that it links before it continues, on
    /// its thread. Other first calls wait meanwhile, also calls into other additions (as for
    /// `dlopen`). A constructor may call entries; it must not wait for a thread that does.
    ///
    /// Without initialization, first calls reach code whose constructors have not run. The
    /// destructors belong to [`Self::implementations`]: see [`Library::deinitialize`].
    ///
    /// # Errors
    /// The errors of [`Library::initialize`]. A first call that cannot link the objects with
    /// constructors fails.
    ///
    /// # Safety
    /// The same as for [`Library::initialize`], for all code of the addition.
    pub unsafe fn initialize(&self, arguments: MainArguments) -> Result<()> {
        let Some(manager) = self.manager.upgrade() else {
            // SAFETY: promised by the caller. Without the manager, no first calls remain.
            return unsafe { self.implementations().initialize(arguments) };
        };
        let guard = manager.initializer_lock().take_here(self.implementations())?;
        self.addition.link_constructors()?;
        // SAFETY: promised by the caller.
        unsafe { self.addition.construct_with(arguments) };
        self.addition.construct(&guard)
    }

    /// Runs a program, as [`Library::run_program`] does, whose parts are linked on their first
    /// calls. `function` is called as `main`; [`Self::link`] returns its address.
    ///
    /// The objects with constructors are linked before. Objects that first calls link are
    /// constructed as described at [`Self::initialize`], and their exit handlers and destructors
    /// run with the program's own when the process ends. The caller must keep the [`LazyReexports`]
    /// until then.
    ///
    /// # Errors
    /// The errors of [`Library::run_program`].
    ///
    /// # Safety
    /// The same as for [`Library::run_program`], for all code of the addition.
    pub unsafe fn run_program(&self, function: u64, arguments: &[CString]) -> Result<Infallible> {
        self.addition.link_constructors()?;
        let arguments = self.implementations().main_arguments(arguments)?;
        // SAFETY: promised by the caller.
        unsafe {
            self.addition.construct_with(arguments);
            self.implementations().run_linked_program(function, arguments)
        }
    }
}

impl Addition {
    /// Returns the definition of a name that other objects see, from the first source that has it.
    /// For a weak reference, only sources whose definitions satisfy weak references count.
    fn defined(&self, name: &str, is_weak: bool) -> Result<Option<Defined>> {
        let mut sources = self.sources.iter().filter(|source| !is_weak || source.answers_weak());
        sources.find_map(|source| source.defined(name).transpose()).transpose()
    }
}

/// A generator of the source's pieces with requested definitions.
struct Pieces(Arc<dyn Source>);

impl Generator for Pieces {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        let asked = requests.iter().filter(|request| !request.weak || self.0.answers_weak());
        let objects = self.0.objects(&mut asked.map(|request| request.name))?;
        let object = |(name, bytes)| Generated::Object { name, bytes };
        Ok(objects.into_iter().map(object).collect())
    }
}

/// A generator of requested entries. It lives in the session.
struct Entries {
    manager: Weak<Manager>,
    /// Number of the addition, because the addition itself would keep the session alive.
    number: usize,
    /// Code already made, because a link that is repeated after a failure requests the same
    /// entries.
    made: Mutex<HashMap<Arc<[Reexport]>, BatchCode>>,
}

impl Generator for Entries {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        let Some(manager) = self.manager.upgrade() else { return Ok(Vec::new()) };
        let addition = manager.addition(self.number);
        let (mut functions, mut generated) = (Vec::new(), Vec::new());
        // Hidden references are to objects of the library.
        for (index, request) in requests.iter().enumerate().filter(|(_, asked)| !asked.hidden) {
            match addition.defined(request.name, request.weak)? {
                Some(Defined { callable: true, linkage, .. }) => {
                    functions
                        .push(Reexport { linkage, ..Reexport::new(request.name, request.name) });
                }
                Some(_) => {
                    let library = addition.implementations.clone();
                    generated.push(Generated::Reexport { index, library });
                }
                None => {}
            }
        }
        // Several requests may have the same name.
        functions.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        functions.dedup_by(|one, other| one.name == other.name);
        if !functions.is_empty() {
            let code = self.code_of(functions.into(), &manager, addition);
            generated.push(Generated::Graph(GeneratedGraph::new(move || code.make())));
        }
        Ok(generated)
    }
}

impl Entries {
    fn code_of(
        &self,
        functions: Arc<[Reexport]>,
        manager: &Manager,
        addition: Arc<Addition>,
    ) -> BatchCode {
        let mut made = self.made.lock();
        let code = made.entry(functions).or_insert_with_key(|functions| {
            let implementations = Implementations::Addition(addition);
            manager.add_batch(Arc::clone(functions), implementations).1
        });
        code.clone()
    }
}
