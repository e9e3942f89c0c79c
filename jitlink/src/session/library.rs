//! What lazy re-exports need of libraries.

use std::fmt;
use std::sync::Arc;

use super::{Library, Lookup, Shared};
use crate::{Architecture, Error, Result, Undefined};

impl Library {
    /// The address of a symbol of this library, as for [`Self::lookup`]; those that come after it are not searched (ORC's look-up with
    /// a search order of one).
    ///
    /// # Errors
    /// As for [`Self::lookup`], and [`Error::Unsupported`] if it is called by what is called while objects are linked.
    pub(crate) fn lookup_own(&self, name: &str) -> Result<u64> {
        let found = self.session.lookup_own(self.id, &[(name, Lookup::Required)])?[0];
        found.ok_or_else(|| {
            Error::Undefined(vec![Undefined { symbol: name.to_owned(), file: String::new() }])
        })
    }

    /// How many objects the session has linked.
    pub(crate) fn objects_linked(&self) -> usize {
        self.session.state.lock().times.objects
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
