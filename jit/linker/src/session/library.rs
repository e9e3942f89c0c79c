//! The functions of libraries for lazy re-exports.

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use super::{Library, Lookup, MainArguments, Shared};
use crate::{Architecture, Error, Result, Undefined};

impl Library {
    /// Returns the address of a symbol of this library, like [`Self::lookup`], without a search of
    /// the libraries after it (ORC's look-up with a search order of one).
    ///
    /// # Errors
    /// The errors of [`Self::lookup`].
    pub(crate) fn lookup_own(&self, name: &str) -> Result<u64> {
        let found = self.session.lookup_own(self.id, &[(name, Lookup::Required)])?[0];
        found.ok_or_else(|| undefined(name))
    }

    /// Links the first function of a program, together with the objects of the library that have
    /// constructors and the objects that define the names in `undefined`, if any does. Returns its
    /// address.
    ///
    /// # Errors
    /// The errors of [`Self::lookup_own`] and [`Self::link_program`].
    pub(crate) fn link_own_program(&self, entry: &str, undefined: &[&str]) -> Result<u64> {
        let found = self.session.link_own_program(self.id, entry, undefined)?;
        found.ok_or_else(|| self::undefined(entry))
    }

    /// Returns the number of objects that the session has linked.
    pub(crate) fn objects_linked(&self) -> usize {
        self.session.state.lock().times.objects
    }

    /// Returns the arguments for a program's `main`, as
    /// [`Session::main_arguments`](super::Session::main_arguments) does.
    pub(crate) fn main_arguments(&self, arguments: &[CString]) -> Result<MainArguments> {
        self.session.main_arguments(arguments)
    }

    /// Calls constructors as the owner of an initializer lock, by its number.
    ///
    /// # Safety
    /// The constructors must be the library's, and sound to run, in the process that executes it,
    /// with these arguments.
    pub(crate) unsafe fn run_as_lock_owner(
        &self,
        lock_owner: u64,
        constructors: Vec<u64>,
        arguments: MainArguments,
    ) -> Result<()> {
        self.session.runtime()?.run_as_lock_owner(lock_owner, constructors, arguments.into())
    }

    /// Returns whether this process executes the session's code.
    pub(crate) fn is_executed_here(&self) -> bool {
        let runtime = self.session.runtime.as_ref();
        runtime.is_none_or(|runtime| runtime.process().facts().is_this_process)
    }

    /// Checks that the process that executes the session's code lives. Blocks until it has replied.
    pub(crate) fn reach_process(&self) -> Result<()> {
        self.session.runtime.as_ref().map_or(Ok(()), |runtime| runtime.reach())
    }

    /// Creates a library whose objects resolve their references as this library's objects do, and
    /// only then in itself.
    pub(crate) fn create_inner(&self, name: &str) -> Library {
        let mut state = self.session.state.lock();
        let id = state.add_library(name);
        state.library_mut(id).refers_through = Some(self.id);
        Library { session: Arc::clone(&self.session), id }
    }

    /// Returns the instruction set of the linked code.
    pub(crate) fn architecture(&self) -> Architecture {
        self.session.architecture
    }

    pub(super) fn is_of(&self, session: &Shared) -> bool {
        std::ptr::eq(&raw const *self.session, session)
    }
}

fn undefined(name: &str) -> Error {
    Error::Undefined(vec![Undefined { symbol: name.to_owned(), file: String::new() }])
}

impl fmt::Debug for Library {
    /// Formats the identifier alone: the name would need the session's lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Library").field(&self.id).finish()
    }
}

impl PartialEq for Library {
    fn eq(&self, other: &Self) -> bool {
        self.is_of(&other.session) && self.id == other.id
    }
}

impl Eq for Library {}
