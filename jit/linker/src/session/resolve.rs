//! The search for the definition of a name.

use std::borrow::Cow;
use std::sync::Arc;

use super::Shared;
use super::entry::{DefinitionId, Entry, Flags, LibraryId, ObjectId, Owner};
use super::generator::{Generated, Request};
use super::state::{LibraryState, State, too_many_names};
use crate::graph::{Linkage, Scope, Symbol};
use crate::{Error, Result};

/// A name to find.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NameQuery<'a> {
    pub(super) name: &'a [u8],
    pub(super) thread_local: bool,
    /// Whether it may stay undefined.
    pub(super) weak: bool,
    /// Whether only an object of the library itself can define it.
    pub(super) hidden: bool,
}

impl<'a> NameQuery<'a> {
    /// Creates the reference of a symbol.
    pub(super) fn from_symbol(symbol: &Symbol<'a>) -> Self {
        Self {
            name: symbol.name,
            thread_local: symbol.thread_local,
            weak: symbol.linkage == Linkage::Weak,
            hidden: symbol.scope == Scope::Hidden,
        }
    }
}

impl Shared {
    /// Runs a link with the session locked. If the link fails, the objects that were generated for
    /// it are removed.
    pub(super) fn linking<T>(&self, link: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        let linked = link(&mut state);
        let generated = std::mem::take(&mut state.generated);
        if linked.is_err() {
            state.forget_pending(generated);
        }
        linked
    }

    /// Looks names up for a library, in the libraries of `order`. Calls generators for missing
    /// names.
    pub(super) fn resolve(
        &self,
        state: &mut State,
        library: LibraryId,
        order: &[LibraryId],
        wanted: &[NameQuery<'_>],
    ) -> Result<Vec<Option<DefinitionId>>> {
        let mut found: Vec<Option<DefinitionId>> = vec![None; wanted.len()];
        let mut names = Vec::new();
        if order.first() != Some(&library) {
            // The linker's own functions take precedence over the process's functions of the same
            // names.
            for (found, wanted) in found.iter_mut().zip(wanted) {
                let defined = self.define_runtime_symbol(state, library, wanted.name)?;
                *found = defined.map(|entry| (library, entry));
            }
        }
        for &searched in order {
            let own = searched == library;
            state.library(searched).follow_aliases(wanted, &mut names);
            let wanted = &with_names(wanted, &names)[..];
            let mut missing: Vec<usize> = Vec::new();
            for (index, wanted) in wanted.iter().enumerate() {
                if found[index].is_some() {
                    continue;
                }
                found[index] = state.find(searched, wanted, own);
                if found[index].is_none() && own {
                    let defined = self.define_runtime_symbol(state, library, wanted.name)?;
                    found[index] = defined.map(|entry| (library, entry));
                }
                if found[index].is_none() && state.may_generate(searched, wanted, own) {
                    missing.push(index);
                }
            }
            let asked = missing.clone();
            let reexported = self.generate(state, searched, wanted, own, &mut missing)?;
            for index in asked {
                found[index] = state.find(searched, &wanted[index], own);
            }
            for (index, from) in reexported {
                if found[index].is_none() {
                    found[index] = self.resolve(state, from, &[from], &wanted[index..=index])?[0];
                }
            }
        }
        Ok(found)
    }

    /// Calls a library's generators, one after the other, for the names still missing. Returns the
    /// names that they have found in other libraries.
    fn generate(
        &self,
        state: &mut State,
        library: LibraryId,
        wanted: &[NameQuery<'_>],
        own: bool,
        missing: &mut Vec<usize>,
    ) -> Result<Vec<(usize, LibraryId)>> {
        let mut reexported: Vec<(usize, LibraryId)> = Vec::new();
        let process = self.runtime.as_ref().map(|runtime| runtime.process());
        for generator in state.library(library).generators.clone() {
            let asked: Vec<(usize, Request<'_>)> = missing
                .iter()
                .filter_map(|index| Some((*index, request(&wanted[*index])?)))
                .collect();
            if asked.is_empty() {
                break;
            }
            let requests: Vec<Request<'_>> = asked.iter().map(|(_, request)| *request).collect();
            for generated in generator.generate_for(process, &requests)? {
                match generated {
                    Generated::Reexport { index, library: from } => {
                        let asked = asked.get(index).filter(|_| from.is_of(self));
                        reexported.extend(asked.map(|(index, _)| (*index, from.id)));
                    }
                    generated => self.define_generated(state, library, &requests, generated)?,
                }
            }
            let is_elsewhere = |index| reexported.iter().any(|(known, _)| *known == index);
            missing.retain(|index| {
                state.may_generate(library, &wanted[*index], own) && !is_elsewhere(*index)
            });
        }
        Ok(reexported)
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
                let added = self.add_elf(state, library, &name, bytes);
                return keep_generated(state, added);
            }
            Generated::Graph(graph) => {
                let added = self.add_made(state, library, move || graph.make());
                return keep_generated(state, added);
            }
            Generated::Reexport { .. } => return Ok(()),
        };
        let Some(request) = requests.get(index) else { return Ok(()) };
        let Some(id) = state.intern(library, request.name.as_bytes()) else {
            return Err(too_many_names(state.library(library).name.to_string()));
        };
        let known = state.entry((library, id));
        let is_free = match known.owner {
            Owner::Nobody => true,
            Owner::Absolute => known.flags.contains(Flags::GENERATED),
            Owner::Object(_) => false,
        };
        if is_free {
            let flags = Flags::GENERATED.with(Flags::THREAD_LOCAL, variable.is_some());
            state.set_entry((library, id), Entry::absolute(address, flags));
            let thread_locals = &mut state.library_mut(library).thread_locals;
            thread_locals.extend(variable.map(|variable| (id, variable)));
        }
        Ok(())
    }
}

/// Records an object that a generator has given.
pub(super) fn keep_generated(state: &mut State, added: Result<(ObjectId, u32)>) -> Result<()> {
    match added {
        Ok((object, _)) => state.generated.push(object),
        // The object is there already, without the requested symbol, which was pruned.
        Err(Error::Duplicate { first, second, .. }) if first == second => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

impl State {
    /// Returns the present definition of a name, for a library. Calls no generator.
    pub(super) fn find_defined(
        &self,
        library: LibraryId,
        wanted: NameQuery<'_>,
    ) -> Option<DefinitionId> {
        let mut names = Vec::new();
        self.reference_order(library).into_iter().find_map(|searched| {
            self.library(searched).follow_aliases(&[wanted], &mut names);
            self.find(searched, &with_names(&[wanted], &names)[0], searched == library)
        })
    }

    /// Returns a library, followed by its link order.
    pub(super) fn search_order(&self, library: LibraryId) -> Vec<LibraryId> {
        std::iter::once(library).chain(self.library(library).link_order.iter().copied()).collect()
    }

    /// Returns the libraries in which a library's objects resolve their references.
    pub(super) fn reference_order(&self, library: LibraryId) -> Vec<LibraryId> {
        let through =
            self.library(library).refers_through.map(|library| self.search_order(library));
        through.into_iter().flatten().chain(self.search_order(library)).collect()
    }

    /// Returns a definition in a library. Only the library itself sees its hidden definitions, and
    /// only such definitions satisfy hidden references.
    fn find(&self, library: LibraryId, wanted: &NameQuery<'_>, own: bool) -> Option<DefinitionId> {
        let id = self.entry_named(library, wanted.name)?;
        let Entry { owner, flags, .. } = self.entry((library, id));
        let is_seen = match own {
            true => !wanted.hidden || is_of_library(flags),
            false => !wanted.hidden && !flags.contains(Flags::HIDDEN),
        };
        (owner != Owner::Nobody && is_seen).then_some((library, id))
    }

    /// Returns whether a library's generators may define a name that the library lacks.
    fn may_generate(&self, library: LibraryId, wanted: &NameQuery<'_>, own: bool) -> bool {
        if wanted.hidden && !own {
            return false;
        }
        self.entry_named(library, wanted.name).is_none_or(|id| {
            let Entry { owner, flags, .. } = self.entry((library, id));
            owner == Owner::Nobody || wanted.hidden && !is_of_library(flags)
        })
    }
}

/// Returns whether a definition is the library's own, and not from another part of the process.
fn is_of_library(flags: Flags) -> bool {
    !flags.contains(Flags::GENERATED) || flags.contains(Flags::HIDDEN)
}

impl LibraryState {
    /// Replaces the names that are aliases here by their targets. `names` stays empty if the
    /// library has no aliases.
    fn follow_aliases(&self, wanted: &[NameQuery<'_>], names: &mut Vec<Option<Arc<[u8]>>>) {
        if self.aliases.is_empty() {
            return;
        }
        names.resize(wanted.len(), None);
        for (wanted, name) in wanted.iter().zip(names) {
            let meant = self.meant_by_name(name.as_deref().unwrap_or(wanted.name));
            *name = meant.or(name.take());
        }
    }

    /// Returns the target of an alias. A cycle of aliases has the empty name as its target, which
    /// nothing defines.
    fn meant_by_name(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        let first = self.aliases.get(name)?;
        let mut chain = std::iter::successors(Some(first), |name| self.aliases.get(&***name));
        let last = chain.by_ref().take(self.aliases.len()).last()?;
        Some(if chain.next().is_none() { Arc::clone(last) } else { Arc::default() })
    }
}

/// Returns the references with replaced names.
fn with_names<'a>(
    wanted: &'a [NameQuery<'a>],
    names: &'a [Option<Arc<[u8]>>],
) -> Cow<'a, [NameQuery<'a>]> {
    if names.is_empty() {
        return Cow::Borrowed(wanted);
    }
    let renamed = |(wanted, name): (&NameQuery<'a>, &'a Option<Arc<[u8]>>)| NameQuery {
        name: name.as_deref().unwrap_or(wanted.name),
        ..*wanted
    };
    wanted.iter().zip(names).map(renamed).collect()
}

/// Returns the request for a name; `None` for a name that is not UTF-8, which no generator knows.
fn request<'a>(wanted: &NameQuery<'a>) -> Option<Request<'a>> {
    Some(Request {
        name: std::str::from_utf8(wanted.name).ok()?,
        thread_local: wanted.thread_local,
        weak: wanted.weak,
        hidden: wanted.hidden,
    })
}
