//! Objects and archives whose functions are linked when they are called.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::constructors::File;
use super::index::{Defined, Index};
use super::manager::{Implementations, Manager};
use super::{LazyReexports, Reexport};
use crate::Result;
use crate::elf::is_archive;
use crate::session::{Generated, GeneratedGraph, Generator, Library, MainArguments, Request};

/// An object or an archive whose functions are linked when they are called. Dropping it leaves the file where it is.
#[derive(Clone)]
pub struct LazyFile {
    manager: Weak<Manager>,
    file: Arc<File>,
    index: Arc<Index>,
}

impl LazyFile {
    /// The library that has the file's own definitions. Looking a function up there links it now.
    pub fn implementations(&self) -> &Library {
        &self.file.implementations
    }

    /// What the file defines under a name for others; nothing if it does not. Links nothing.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for a damaged member.
    pub fn defined(&self, name: &str) -> Result<Option<Defined>> {
        self.index.defined(name)
    }

    /// All that the file defines for others, in any order. Reads the symbols of all members, and links nothing.
    ///
    /// # Errors
    /// As for [`Self::defined`].
    pub fn all_defined(&self) -> Result<Vec<(String, Defined)>> {
        self.index.all_defined()
    }

    /// Does what the first call of a function does, and says where the function is: links it, and runs constructors if the file
    /// is [initialized](Self::initialize). Its entry gets there with its next call.
    ///
    /// # Errors
    /// As for [`Library::lookup`] and [`Library::initialize`].
    pub fn link(&self, function: &str) -> Result<u64> {
        match self.manager.upgrade() {
            Some(manager) => manager.turns().take(|_| {
                let address = self.file.implementations.lookup_own(function)?;
                self.file.construct()?;
                Ok(address)
            }),
            None => self.file.implementations.lookup_own(function),
        }
    }

    /// Runs the constructors of what of the file is linked, and of an object that has any. From now on those of what a first call links
    /// are run before the call goes on, on its thread; others whose first calls come meanwhile wait, also those of other files
    /// (what `dlopen` does). A constructor may call entries; it must not wait for a thread that does.
    ///
    /// Without this, first calls go to code whose constructors have not run. Destructors are those of
    /// [`Self::implementations`]: see [`Library::deinitialize`].
    ///
    /// # Errors
    /// As for [`Library::initialize`]. A first call that cannot link what has constructors fails.
    ///
    /// # Safety
    /// As for [`Library::initialize`], for all code of the file.
    pub unsafe fn initialize(&self, arguments: MainArguments) -> Result<()> {
        match self.manager.upgrade() {
            // SAFETY: promised by the caller.
            Some(manager) => unsafe { self.file.initialize(manager.turns(), arguments) },
            // SAFETY: as above. There are no first calls any more.
            None => unsafe { self.file.implementations.initialize(arguments) },
        }
    }
}

impl LazyReexports {
    /// Adds an object, or the members of an archive, of which each is linked when a function of it is first called, or a variable
    /// asked for (what ORC's `CompileOnDemandLayer` does with the functions of a module).
    ///
    /// Each global function has an entry in the library, under its name. Entries are made when they are asked for, so this takes as
    /// long as reading the file's symbols, or an archive's index. The definitions are in a library of their own, from which calls
    /// between the members lead through the entries too; everything else is looked up as for an object of `library`. A name that
    /// an object of `library` or a generator before has is that one's, as for an archive's member.
    ///
    /// A session that takes out what nothing reaches links of a member what is called first, and no more.
    ///
    /// A function has its entry's address, but to the code of its own object, which may know it directly. Constructors run if
    /// the file is [initialized](LazyFile::initialize).
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) or [`Error::Unsupported`](crate::Error::Unsupported) for bytes that are neither an
    /// archive nor an object for this linker; nothing has changed then. Of an archive's members only those are looked at that are
    /// asked for, later.
    pub fn add_lazily(&self, library: &Library, name: &str, bytes: Bytes) -> Result<LazyFile> {
        let index = Arc::new(Index::read(name, bytes.clone())?);
        let implementations = library.create_inner(name);
        if is_archive(&bytes) {
            implementations.add_generator(Members(Arc::clone(&index)));
        } else {
            let _object = implementations.add_object(name, bytes)?;
        }
        let file = Arc::new(File::new(implementations));
        let (manager, number) = (Arc::downgrade(&self.0), self.0.add_file(Arc::clone(&file)));
        let entries = Entries { manager: manager.clone(), file: number, index: Arc::clone(&index) };
        library.add_generator(entries);
        Ok(LazyFile { manager, file, index })
    }
}

/// Gives the members that define what is asked for.
struct Members(Arc<Index>);

impl Generator for Members {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        let strong = requests.iter().filter(|request| !request.weak);
        let members = self.0.members_with(strong.map(|request| request.name))?;
        let object = |(name, bytes)| Generated::Object { name, bytes };
        Ok(members.into_iter().map(object).collect())
    }
}

/// Makes the entries that are asked for. It lives in the session.
struct Entries {
    manager: Weak<Manager>,
    /// The file's number. The file itself would keep the session alive.
    file: usize,
    index: Arc<Index>,
}

impl Generator for Entries {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        let Some(manager) = self.manager.upgrade() else { return Ok(Vec::new()) };
        let file = manager.file(self.file);
        let (mut functions, mut generated) = (Vec::new(), Vec::new());
        for (index, request) in requests.iter().enumerate() {
            // Hidden references are to objects of the library, and a weak one does not pull a member.
            if request.hidden || request.weak && self.index.is_archive() {
                continue;
            }
            match self.index.defined(request.name)? {
                Some(Defined { callable: true, linkage, .. }) => {
                    functions
                        .push(Reexport { linkage, ..Reexport::new(request.name, request.name) });
                }
                Some(_) => {
                    let library = file.implementations.clone();
                    generated.push(Generated::Reexport { index, library });
                }
                None => {}
            }
        }
        // A name may be asked for twice.
        functions.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        functions.dedup_by(|one, other| one.name == other.name);
        if !functions.is_empty() {
            let (_, code) = manager.add_batch(functions.into(), Implementations::File(file));
            generated.push(Generated::Graph(GeneratedGraph::new(move || code.make())));
        }
        Ok(generated)
    }
}
