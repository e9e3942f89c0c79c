//! Lazy re-exports: code linked on its first call behaves like code linked before.

mod arguments;
mod elsewhere;
mod entries;
mod failures;
mod files;
mod machines;
mod redirections;
mod removal;
mod threads;
mod together;

use bytes::Bytes;
use longshore_jitlink::lazy::{LazyReexports, LazyTracker, Reexport};
use longshore_jitlink::session::ProcessSymbols;
use longshore_jitlink::{Error, Library, Session};

use crate::in_process::support;

/// Objects with implementations, and a library that calls them through entries.
struct World {
    session: Session,
    /// Library with the entries.
    library: Library,
    implementations: Library,
    lazy: LazyReexports,
}

impl World {
    fn new(objects: &[Bytes]) -> Self {
        let session = support::session();
        let lazy = LazyReexports::for_session(&session).unwrap();
        Self::with(session, lazy, objects)
    }

    fn with(session: Session, lazy: LazyReexports, objects: &[Bytes]) -> Self {
        let (library, implementations) =
            (session.create_library("program"), session.create_library("program.impl"));
        for (index, object) in objects.iter().enumerate() {
            let name = format!("{index}.o");
            let _object = implementations.add_object(&name, object.clone()).unwrap();
        }
        library.add_generator(ProcessSymbols);
        implementations.add_generator(ProcessSymbols);
        Self { session, library, implementations, lazy }
    }

    /// Adds entries named like the implementations, with the prefix `e_`.
    fn add(&self, names: &[&str]) -> LazyTracker {
        self.try_add(names.iter().map(|name| Reexport::new(format!("e_{name}"), *name))).unwrap()
    }

    fn try_add(&self, reexports: impl IntoIterator<Item = Reexport>) -> Result<LazyTracker, Error> {
        self.lazy.add(&self.library, &self.implementations, reexports)
    }

    /// Returns the number of linked objects.
    fn linked(&self) -> usize {
        self.session.times().objects
    }
}
