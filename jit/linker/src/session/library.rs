//! What lazy re-exports need of libraries.

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use super::{Library, Lookup, MainArguments, Shared};
use crate::{Architecture, Error, Result, Undefined};

impl Library {
    /// The address of a symbol of this library, as for [`Self::lookup`]; those that come after it are not searched (ORC's look-up with
    /// a search order of one).
    ///
    /// # Errors
    /// As for [`Self::lookup`], and [`Error::Unsupported`] if it is called by what is called while objects are linked.
    pub(crate) fn lookup_own(&self, name: &str) -> Result<u64> {
        let found = self.session.lookup_own(self.id, &[(name, Lookup::Required)])?[0];
        found.ok_or_else(|| undefined(name))
    }

    /// Links the first function of a program, together with the objects of the library that have constructors and those that define
    /// other names, if any does. Returns its address.
    ///
    /// # Errors
    /// As for [`Self::lookup_own`] and [`Self::link_program`].
    pub(crate) fn link_own_program(&self, entry: &str, undefined: &[&str]) -> Result<u64> {
        let found = self.session.link_own_program(self.id, entry, undefined)?;
        found.ok_or_else(|| self::undefined(entry))
    }

    /// How many objects the session has linked.
    pub(crate) fn objects_linked(&self) -> usize {
        self.session.state.lock().times.objects
    }

    /// What a program is called with that has these arguments: [`Session::main_arguments`](super::Session::main_arguments).
    pub(crate) fn main_arguments(&self, arguments: &[CString]) -> Result<MainArguments> {
        self.session.main_arguments(arguments)
    }

    /// Calls constructors in a turn, by its number.
    ///
    /// # Safety
    /// They must be the library's, and sound to run, in the process that executes it, with these arguments.
    pub(crate) unsafe fn run_in_turn(
        &self,
        turn: u64,
        constructors: Vec<u64>,
        arguments: MainArguments,
    ) -> Result<()> {
        self.session.runtime()?.run_in_turn(turn, constructors, arguments.into())
    }

    /// Whether this process executes the session's code.
    pub(crate) fn is_executed_here(&self) -> bool {
        let runtime = self.session.runtime.as_ref();
        runtime.is_none_or(|runtime| runtime.process().facts().is_this_process)
    }

    /// Whether the process that executes the session's code lives. Blocks until it has answered.
    pub(crate) fn reach_process(&self) -> Result<()> {
        self.session.runtime.as_ref().map_or(Ok(()), |runtime| runtime.reach())
    }

    /// A new library whose objects find what they refer to as objects of this one do, and only then in itself.
    pub(crate) fn create_inner(&self, name: &str) -> Library {
        let mut state = self.session.state.lock();
        let id = state.add_library(name);
        state.library_mut(id).refers_through = Some(self.id);
        Library { session: Arc::clone(&self.session), id }
    }

    /// The instruction set of what is linked.
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
    /// Without the name, which would need the session.
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
