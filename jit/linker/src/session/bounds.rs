//! Bounds of sections that several objects of a link have: `__start_x` and `__stop_x`.
//!
//! The sections `x` of all objects lie together then, in a group of segments, and the bounds are those of them all. Objects that are
//! linked later have sections of their own.

use std::ops::Range;

use hashbrown::HashMap;

use super::link::{Batch, Linking};
use super::program_bounds::union;
use crate::error::for_message;
use crate::graph::{Linkage, SymbolId, bounded_section};
use crate::memory::{Lifetime, Protection};
use crate::{Error, Result, Undefined};

/// Sections of a name that lie together.
pub(super) struct SharedSections {
    name: Vec<u8>,
    group: u32,
    /// The members that refer to the bounds, by their places in the batch.
    users: Vec<usize>,
    /// Those that have such sections.
    owners: Vec<usize>,
}

/// Who wants bounds of sections of a name, and who has some.
#[derive(Default)]
struct Wanted {
    users: Vec<(usize, Option<SymbolId>)>,
    owners: Vec<(usize, (Protection, Lifetime))>,
}

impl SharedSections {
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }
}

impl Batch {
    /// Finds bounds of sections that are not those of one object alone. What is found nowhere is missing, but for weak references
    /// and unless `may_be_missing`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if sections of one name need different kinds of memory.
    pub(super) fn share_bounds(&mut self, may_be_missing: bool) -> Result<()> {
        let mut wanted = self.wanted_bounds();
        if wanted.is_empty() {
            return Ok(());
        }
        self.find_owners(&mut wanted);
        let mut wanted: Vec<(Vec<u8>, Wanted)> = wanted.into_iter().collect();
        wanted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, wanted) in wanted {
            match &wanted.owners[..] {
                [] if !may_be_missing => self.note_missing(&wanted),
                [] => {}
                [(owner, _)] if wanted.users.iter().all(|user| *user == (*owner, None)) => {}
                _ => self.share(name, wanted)?,
            }
        }
        Ok(())
    }

    /// Gives the bounds their addresses, once memory is allocated.
    pub(super) fn define_shared_bounds(&mut self) {
        for SharedSections { name, group, users, owners } in &self.shared {
            let range = range_of(&self.members, owners, *group);
            let Some(range) = range else { continue };
            for user in users {
                self.members[*user].graph.define_shared_bounds(name, &range);
            }
        }
    }

    /// Where sections that lie together are, once memory is allocated.
    pub(super) fn range_of(&self, shared: &SharedSections) -> Option<Range<u64>> {
        range_of(&self.members, &shared.owners, shared.group)
    }

    /// Has all sections of a name lie together.
    ///
    /// # Errors
    /// As for [`Self::share_bounds`].
    pub(super) fn share_all(&mut self, name: Vec<u8>) -> Result<()> {
        let mut wanted = HashMap::from_iter([(name, Wanted::default())]);
        self.find_owners(&mut wanted);
        let owned = wanted.into_iter().filter(|(_, wanted)| !wanted.owners.is_empty());
        owned.into_iter().try_for_each(|(name, wanted)| self.share(name, wanted))
    }

    fn find_owners(&self, wanted: &mut HashMap<Vec<u8>, Wanted>) {
        for (index, linking) in self.members.iter().enumerate() {
            for (name, kind) in linking.graph.kinds_of_sections(wanted) {
                wanted.get_mut(&name).expect("it was asked for").owners.push((index, kind));
            }
        }
    }

    fn wanted_bounds(&self) -> HashMap<Vec<u8>, Wanted> {
        let mut wanted: HashMap<Vec<u8>, Wanted> = HashMap::new();
        let mut want = |name: &[u8], user| wanted.entry_ref(name).or_default().users.push(user);
        for (index, Linking { graph, targets, .. }) in self.members.iter().enumerate() {
            graph.bounded_names().for_each(|name| want(name, (index, None)));
            for symbol in targets.undefined() {
                if let Some((name, _)) = bounded_section(graph.symbol(symbol).name) {
                    want(name, (index, Some(symbol)));
                }
            }
        }
        wanted
    }

    fn note_missing(&mut self, wanted: &Wanted) {
        for (user, symbol) in &wanted.users {
            let graph = &self.members[*user].graph;
            let Some(symbol) = symbol.map(|symbol| graph.symbol(symbol)) else { continue };
            if symbol.linkage == Linkage::Strong {
                let (symbol, file) = (for_message(symbol.name), graph.name().to_string());
                self.missing.push(Undefined { symbol, file });
            }
        }
    }

    fn share(&mut self, name: Vec<u8>, wanted: Wanted) -> Result<()> {
        let Wanted { mut users, owners } = wanted;
        let (first, kind) = owners[0];
        if let Some((other, _)) = owners.iter().find(|(_, other)| *other != kind) {
            let [first, other] =
                [first, *other].map(|member| self.members[member].graph.name().to_string());
            let name = for_message(&name);
            let problem = format!(
                "its sections named {name} cannot lie together with those of {first}, as __start_{name} and __stop_{name} want: \
                 they differ in protection"
            );
            return Err(Error::Unsupported { file: other, problem });
        }
        let group = self.shared.len() as u32 + 1;
        for (owner, _) in &owners {
            self.members[*owner].graph.share_sections(&name, group);
        }
        for (user, symbol) in &users {
            if let Some(symbol) = symbol {
                let Linking { graph, targets, .. } = &mut self.members[*user];
                graph.bound_others(*symbol);
                targets.remove(|other| other == *symbol);
            }
        }
        users.dedup_by_key(|(user, _)| *user);
        let users: Vec<usize> = users.into_iter().map(|(user, _)| user).collect();
        let owners: Vec<usize> = owners.into_iter().map(|(owner, _)| owner).collect();
        let objects: Vec<_> = owners.iter().map(|owner| self.members[*owner].object).collect();
        for user in &users {
            self.members[*user].bounds_of.extend(&objects);
        }
        self.shared.push(SharedSections { name, group, users, owners });
        Ok(())
    }
}

fn range_of(members: &[Linking], owners: &[usize], group: u32) -> Option<Range<u64>> {
    let graphs = owners.iter().map(|owner| &members[*owner].graph);
    graphs.filter_map(|graph| graph.range_of_group(group)).reduce(union)
}
