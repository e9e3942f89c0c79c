//! Bounds of sections that several objects of a link have: `__start_x` and `__stop_x`.
//!
//! The sections `x` of all objects lie together then, in a group of segments, and the bounds
//! enclose them all. Objects that are linked later have sections of their own.

use std::ops::Range;

use hashbrown::HashMap;

use crate::error::for_message;
use crate::graph::{Linkage, SymbolId, bounded_section, is_kind};
use crate::memory::{Lifetime, Protection};
use crate::session::batch::{Batch, LinkingObject};
use crate::{Error, Result, Undefined};

/// The sections that lie together with sections of other members.
#[derive(Default)]
pub(super) struct SharedSections(Vec<Sections>);

/// Sections of a name that lie together.
struct Sections {
    name: Vec<u8>,
    group: u32,
    /// Members that refer to the bounds, by their indices in the batch.
    users: Vec<usize>,
    /// Members that have such sections, by their indices in the batch.
    owners: Vec<usize>,
}

/// The members that refer to bounds of sections of a name, and the members that have such sections.
#[derive(Default)]
struct SectionMembers {
    users: Vec<(usize, Option<SymbolId>)>,
    owners: Vec<(usize, (Protection, Lifetime))>,
}

impl SharedSections {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds bounds of sections that are not one object's alone. Bounds without sections are
    /// missing, except for weak references and if `may_be_missing` is set.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if sections of one name need different kinds of memory.
    pub(super) fn share_bounds(&mut self, batch: &mut Batch, may_be_missing: bool) -> Result<()> {
        let mut wanted = wanted_bounds(batch);
        if wanted.is_empty() {
            return Ok(());
        }
        find_owners(batch, &mut wanted);
        let mut wanted: Vec<(Vec<u8>, SectionMembers)> = wanted.into_iter().collect();
        wanted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, wanted) in wanted {
            match &wanted.owners[..] {
                [] if !may_be_missing => note_missing(batch, &wanted),
                [] => {}
                [(owner, _)] if wanted.users.iter().all(|user| *user == (*owner, None)) => {}
                _ => self.share(batch, name, wanted)?,
            }
        }
        Ok(())
    }

    /// Makes all sections of a name lie together.
    ///
    /// # Errors
    /// The errors of [`Self::share_bounds`].
    pub(super) fn share_all(&mut self, batch: &mut Batch, name: Vec<u8>) -> Result<()> {
        let mut wanted = HashMap::from_iter([(name, SectionMembers::default())]);
        find_owners(batch, &mut wanted);
        let owned = wanted.into_iter().filter(|(_, wanted)| !wanted.owners.is_empty());
        owned.into_iter().try_for_each(|(name, wanted)| self.share(batch, name, wanted))
    }

    /// Gives the bounds their addresses, once memory is allocated.
    pub(super) fn define(&self, batch: &mut Batch) {
        for sections in &self.0 {
            let Some(range) = sections.range(batch) else { continue };
            for user in &sections.users {
                batch.members[*user].graph.define_shared_bounds(&sections.name, &range);
            }
        }
    }

    /// Returns the range of all sections of a kind, named `kind` or `kind.` with a suffix, once
    /// memory is allocated.
    pub(super) fn range_of_kind(&self, batch: &Batch, kind: &str) -> Option<Range<u64>> {
        let of_kind = self.0.iter().filter(|sections| is_kind(&sections.name, kind.as_bytes()));
        of_kind.filter_map(|sections| sections.range(batch)).reduce(union)
    }

    fn share(&mut self, batch: &mut Batch, name: Vec<u8>, wanted: SectionMembers) -> Result<()> {
        let members = &mut batch.members;
        let SectionMembers { mut users, owners } = wanted;
        let (first, kind) = owners[0];
        if let Some((other, _)) = owners.iter().find(|(_, other)| *other != kind) {
            let [first, other] =
                [first, *other].map(|member| members[member].graph.name().to_string());
            let name = for_message(&name);
            let problem = format!(
                "its sections named {name} cannot lie together with the sections of that name in {first}, as __start_{name} and __stop_{name} \
                 require: they differ in protection"
            );
            return Err(Error::Unsupported { file: other, problem });
        }
        let group = self.0.len() as u32 + 1;
        for (owner, _) in &owners {
            members[*owner].graph.share_sections(&name, group);
        }
        for (user, symbol) in &users {
            if let Some(symbol) = symbol {
                let LinkingObject { graph, targets, .. } = &mut members[*user];
                graph.bound_others(*symbol);
                targets.remove(|other| other == *symbol);
            }
        }
        users.dedup_by_key(|(user, _)| *user);
        let users: Vec<usize> = users.into_iter().map(|(user, _)| user).collect();
        let owners: Vec<usize> = owners.into_iter().map(|(owner, _)| owner).collect();
        let objects: Vec<_> = owners.iter().map(|owner| members[*owner].object).collect();
        for user in &users {
            members[*user].bounds_of.extend(&objects);
        }
        self.0.push(Sections { name, group, users, owners });
        Ok(())
    }
}

impl Sections {
    /// Returns the range of the sections, once memory is allocated.
    fn range(&self, batch: &Batch) -> Option<Range<u64>> {
        let graphs = self.owners.iter().map(|owner| &batch.members[*owner].graph);
        graphs.filter_map(|graph| graph.range_of_group(self.group)).reduce(union)
    }
}

fn wanted_bounds(batch: &Batch) -> HashMap<Vec<u8>, SectionMembers> {
    let mut wanted: HashMap<Vec<u8>, SectionMembers> = HashMap::new();
    let mut want = |name: &[u8], user| wanted.entry_ref(name).or_default().users.push(user);
    for (index, LinkingObject { graph, targets, .. }) in batch.members.iter().enumerate() {
        graph.bounded_names().for_each(|name| want(name, (index, None)));
        for symbol in targets.undefined() {
            if let Some((name, _)) = bounded_section(graph.symbol(symbol).name) {
                want(name, (index, Some(symbol)));
            }
        }
    }
    wanted
}

fn find_owners(batch: &Batch, wanted: &mut HashMap<Vec<u8>, SectionMembers>) {
    for (index, linking) in batch.members.iter().enumerate() {
        for (name, kind) in linking.graph.kinds_of_sections(wanted) {
            wanted.get_mut(&name).expect("it was asked for").owners.push((index, kind));
        }
    }
}

fn note_missing(batch: &mut Batch, wanted: &SectionMembers) {
    for (user, symbol) in &wanted.users {
        let graph = &batch.members[*user].graph;
        let Some(symbol) = symbol.map(|symbol| graph.symbol(symbol)) else { continue };
        if symbol.linkage == Linkage::Strong {
            let (symbol, file) = (for_message(symbol.name), graph.name().to_string());
            batch.missing.push(Undefined { symbol, file });
        }
    }
}

/// Returns the smallest range that contains both.
pub(super) fn union(one: Range<u64>, other: Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}
