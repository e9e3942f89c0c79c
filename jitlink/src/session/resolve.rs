//! Finding who defines a name.

use std::borrow::Cow;
use std::sync::Arc;

use super::Shared;
use super::generator::{Generated, Request};
use super::state::{LibraryId, LibraryState, State};
use super::table::{Entry, EntryId, Flags, Owner};
use crate::Result;

/// A definition: its library and its place there.
pub(super) type Found = (LibraryId, EntryId);

/// A name to be found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) name: &'a [u8],
    pub(super) thread_local: bool,
}

impl Shared {
    /// Looks names up from a library: in it, then in those that come after it. Generators are asked for what is not there.
    pub(super) fn resolve(
        &self,
        state: &mut State,
        library: LibraryId,
        wanted: &[Wanted<'_>],
    ) -> Result<Vec<Option<Found>>> {
        let mut found: Vec<Option<Found>> = vec![None; wanted.len()];
        let order: Vec<LibraryId> = std::iter::once(library)
            .chain(state.library(library).link_order.iter().copied())
            .collect();
        for searched in order {
            let meant = state.library(searched).meant_by(wanted);
            let wanted = &with_names(wanted, &meant)[..];
            let mut missing: Vec<usize> = Vec::new();
            for (index, wanted) in wanted.iter().enumerate() {
                if found[index].is_none() {
                    found[index] = state.find(searched, wanted.name, searched == library);
                    if found[index].is_none() && searched == library {
                        let own = self.define_runtime_symbol(state, library, wanted.name);
                        found[index] = own.map(|entry| (library, entry));
                    }
                    if found[index].is_none() {
                        missing.push(index);
                    }
                }
            }
            self.generate(state, searched, wanted, &mut missing)?;
            for (index, wanted) in wanted.iter().enumerate() {
                if found[index].is_none() {
                    found[index] = state.find(searched, wanted.name, searched == library);
                }
            }
        }
        Ok(found)
    }

    /// Asks a library's generators, one after the other, for what is still missing.
    fn generate(
        &self,
        state: &mut State,
        library: LibraryId,
        wanted: &[Wanted<'_>],
        missing: &mut Vec<usize>,
    ) -> Result<()> {
        for generator in state.library(library).generators.clone() {
            let asked: Vec<(usize, Request<'_>)> = missing
                .iter()
                .filter_map(|index| Some((*index, request(&wanted[*index])?)))
                .collect();
            if asked.is_empty() {
                break;
            }
            let requests: Vec<Request<'_>> = asked.iter().map(|(_, request)| *request).collect();
            for generated in generator.generate(&requests)? {
                self.define_generated(state, library, &requests, generated)?;
            }
            missing.retain(|index| state.find(library, wanted[*index].name, true).is_none());
        }
        Ok(())
    }

    fn define_generated(
        &self,
        state: &mut State,
        library: LibraryId,
        requests: &[Request<'_>],
        generated: Generated,
    ) -> Result<()> {
        let (index, address, variable) = match generated {
            Generated::Address { index, address } => (index, address, None),
            Generated::ThreadLocal { index, variable } => (index, variable.offset, Some(variable)),
            Generated::Object { name, bytes } => {
                return self.add_elf(state, library, &name, bytes).map(drop);
            }
        };
        let Some(request) = requests.get(index) else { return Ok(()) };
        let library = state.library_mut(library);
        let id = library.table.intern(request.name.as_bytes());
        let flags = Flags::GENERATED.with(Flags::THREAD_LOCAL, variable.is_some());
        library.table.set(id, Entry::absolute(address, flags));
        if let Some(variable) = variable {
            library.thread_locals.insert(id, variable);
        }
        Ok(())
    }
}

impl State {
    /// A definition that a library has. Hidden ones are for the library itself.
    fn find(&self, library: LibraryId, name: &[u8], own: bool) -> Option<Found> {
        let table = &self.library(library).table;
        let id = table.find(name)?;
        let entry = table.entry(id);
        (entry.owner != Owner::Nobody && (own || !entry.flags.contains(Flags::HIDDEN)))
            .then_some((library, id))
    }
}

impl LibraryState {
    /// What the names that are aliases stand for; nothing if the library has no aliases.
    fn meant_by(&self, wanted: &[Wanted<'_>]) -> Vec<Option<Arc<[u8]>>> {
        if self.aliases.is_empty() {
            return Vec::new();
        }
        wanted.iter().map(|wanted| self.meant_by_name(wanted.name)).collect()
    }

    /// Aliases that stand for each other stand for nothing, the empty name.
    fn meant_by_name(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        let first = self.aliases.get(name)?;
        let mut chain = std::iter::successors(Some(first), |name| self.aliases.get(&***name));
        let last = chain.by_ref().take(self.aliases.len()).last()?;
        Some(if chain.next().is_none() { Arc::clone(last) } else { Arc::default() })
    }
}

/// The same with other names where there are some.
fn with_names<'a>(
    wanted: &'a [Wanted<'a>],
    names: &'a [Option<Arc<[u8]>>],
) -> Cow<'a, [Wanted<'a>]> {
    if names.is_empty() {
        return Cow::Borrowed(wanted);
    }
    let renamed = |(wanted, name): (&Wanted<'a>, &'a Option<Arc<[u8]>>)| Wanted {
        name: name.as_deref().unwrap_or(wanted.name),
        ..*wanted
    };
    wanted.iter().zip(names).map(renamed).collect()
}

/// A name that is not UTF-8 is known to no generator.
fn request<'a>(wanted: &Wanted<'a>) -> Option<Request<'a>> {
    Some(Request {
        name: std::str::from_utf8(wanted.name).ok()?,
        thread_local: wanted.thread_local,
    })
}
