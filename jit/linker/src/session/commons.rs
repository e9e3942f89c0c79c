//! Archives' definitions of common symbols.
//!
//! A common symbol is a definition in the absence of another one. As in system linkers, an
//! archive's member with a proper definition replaces it: Fortran's BLOCK DATA, for example, gives
//! a common block its initial values.

use super::Shared;
use super::entry::{Flags, LibraryId, ObjectId, Owner};
use super::generator::{Generated, Request};
use super::resolve::keep_generated;
use super::state::State;
use crate::Result;
use crate::elf::{DefinitionPlace, ElfObject};

impl Shared {
    /// Adds the generators' definitions of the objects' common symbols. The objects lose these
    /// symbols.
    pub(super) fn define_commons(&self, state: &mut State, objects: &[ObjectId]) -> Result<()> {
        for object in objects {
            let library = state.object(*object).library;
            for generator in state.library(library).generators.clone() {
                let names = state.commons_of(*object);
                if names.is_empty() {
                    break;
                }
                let process = self.runtime.as_ref().map(|runtime| runtime.process());
                let requests: Vec<Request<'_>> = names.iter().map(|name| request(name)).collect();
                for generated in generator.generate_for(process, &requests)? {
                    self.add_definitions(state, library, &names, generated)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an object that defines any of these names as a symbol other than common.
    fn add_definitions(
        &self,
        state: &mut State,
        library: LibraryId,
        names: &[String],
        generated: Generated,
    ) -> Result<()> {
        let Generated::Object { name, bytes } = generated else { return Ok(()) };
        let object = ElfObject::read(&name, bytes.clone())?;
        let view = object.view();
        let mut globals = view.first_global.max(1)..view.symbols.len() as u32;
        let defines = |symbol| {
            matches!(
                view.definition_place(symbol),
                DefinitionPlace::Section(_) | DefinitionPlace::Absolute
            ) && names.iter().any(|name| name.as_bytes() == view.symbol_name(symbol))
        };
        if !globals.any(defines) {
            return Ok(());
        }
        let added = self.add_elf(state, library, &name, bytes);
        keep_generated(state, added)
    }
}

/// Returns a request for an object of the library; an address does not satisfy it.
fn request(name: &str) -> Request<'_> {
    Request { name, hidden: true, ..Request::default() }
}

impl State {
    /// Returns the names of an object's common symbols that are the definitions in use.
    fn commons_of(&self, id: ObjectId) -> Vec<String> {
        let object = self.object(id);
        let library = self.library(object.library);
        if library.commons.is_empty() {
            return Vec::new();
        }
        let is_common = |entry: &_| {
            let entry = library.table.entry(*entry);
            entry.owner == Owner::Object(id) && entry.flags.contains(Flags::COMMON)
        };
        let name = |entry| self.name_of((object.library, entry));
        let names = object.entries.iter().filter(is_common).map(name);
        names.filter_map(|name| Some(std::str::from_utf8(name).ok()?.to_owned())).collect()
    }
}
