//! The collection of a batch: the graphs of all needed objects, and the definitions of their
//! symbols.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::{HashMap, HashSet};

use super::Shared;
use super::batch::{Batch, LinkingObject};
use super::bounds::program_bound;
use super::entry::{DefinitionId, Flags, LibraryId, ObjectId, Owner};
use super::object_state::{Phase, Source};
use super::parallel::{parallel, parallel_mut};
use super::pass::Stage;
use super::resolve::NameQuery;
use super::state::State;
use super::times::lap;
use crate::error::for_message;
use crate::graph::{Definition, LinkGraph, Linkage, Symbol, SymbolId, bounded_section};
use crate::memory::Placement;
use crate::{Error, Result, Undefined};

/// A needed object, and the needed part of it in a session that prunes.
pub(super) type NeededObject = (ObjectId, Extent);

/// The part of an object from which pruning starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The sections kept in any object: constructors, destructors and their like.
    Kept,
    /// All definitions of the object.
    Whole,
    Symbol(SymbolId),
}

/// The starting points of a link.
#[derive(Default)]
pub(super) struct LinkRoots {
    pub(super) roots: Vec<DefinitionId>,
    pub(super) objects: Vec<NeededObject>,
    /// Names without a definition at the look-up of the roots.
    pub(super) missing: Vec<Undefined>,
    /// The root that is to be called, if any.
    pub(super) entry: Option<DefinitionId>,
}

impl Shared {
    /// Reads the graphs of all needed objects, and finds the definitions of their symbols.
    pub(super) fn gather(&self, state: &mut State, wanted: &LinkRoots) -> Result<Batch> {
        let mut batch = Batch::default();
        batch.missing = wanted.missing.clone();
        let mut needed = wanted.objects.clone();
        needed.extend(wanted.roots.iter().filter_map(|root| state.need_of(*root)));
        while !needed.is_empty() {
            let mut clock = Instant::now();
            let first = batch.members.len();
            let fresh = state.pending_of(&needed, &batch);
            batch.members.extend(self.read_all(state, &fresh)?);
            self.define_commons(state, &fresh)?;
            batch.index_members();
            let reached = self.options.prunes.then(|| batch.follow(&needed));
            needed.clear();
            state.times.read += lap(&mut clock);
            match reached {
                Some(reached) => {
                    for (index, symbols) in reached {
                        self.find_targets(state, &mut batch, index, symbols, &mut needed)?;
                    }
                }
                None => {
                    for index in first..batch.members.len() {
                        let symbols = batch.members[index].graph.undefined().collect();
                        let mut found = Vec::new();
                        self.find_targets(state, &mut batch, index, symbols, &mut found)?;
                        // Without pruning, an object in the batch is linked whole, so it adds no
                        // new needs.
                        found.retain(|(object, _)| state.is_pending(*object, &batch));
                        needed.append(&mut found);
                    }
                }
            }
            if needed.is_empty() {
                needed = batch.find_missing(state)?;
            }
            state.times.resolve += lap(&mut clock);
        }
        if self.options.prunes {
            let mut clock = Instant::now();
            self.finish_pruning(&mut batch)?;
            state.times.read += lap(&mut clock);
        }
        batch.sort_members(state);
        Ok(batch)
    }

    /// Reads graphs up to the look-up of their symbols.
    fn read_all(&self, state: &State, objects: &[ObjectId]) -> Result<Vec<LinkingObject>> {
        let read = |id: &ObjectId| {
            let object = state.object(*id);
            let Phase::Pending(source) = &object.phase else {
                return Err(Error::Unsupported {
                    file: object.name.to_string(),
                    problem: "it is linked already".into(),
                });
            };
            let mut graph = match source {
                Source::Elf(elf) => LinkGraph::from_object(elf.clone())?,
                Source::Made(made) => made.make(),
            };
            graph.discard_groups(&object.lost_groups)?;
            for symbol in &object.lost {
                graph.redefine(SymbolId::from_index(symbol.symbol), Definition::External);
            }
            // A piece of an addition has entries, through which all code but its own finds it. In a
            // session that prunes, only its own code finds it.
            if state.library(object.library).refers_through.is_some() && !self.options.prunes {
                graph.take_addresses_by_name(self.options.placement == Placement::Low);
            }
            for (symbol, alignment) in state.common_alignments_of(*id) {
                graph.align_common(symbol, alignment);
            }
            self.options.passes.run(Stage::Prune, &mut graph)?;
            let pruning = self.options.prunes.then(|| graph.start_pruning());
            if pruning.is_none() {
                self.options.passes.run(Stage::PostPrune, &mut graph)?;
                graph.scan()?;
            }
            let lost = object.lost.len();
            Ok(LinkingObject { pruning, lost, ..LinkingObject::new(*id, object.library, graph) })
        };
        parallel(self.options.threads, objects, read)
    }

    fn finish_pruning(&self, batch: &mut Batch) -> Result<()> {
        parallel_mut(self.options.threads, &mut batch.members, |linking| {
            if let Some(pruning) = linking.pruning.take() {
                linking.graph.finish_pruning(pruning)?;
            }
            self.options.passes.run(Stage::PostPrune, &mut linking.graph)?;
            linking.graph.scan()?;
            let used: Vec<SymbolId> = linking.graph.undefined().collect();
            let mut targets: Vec<_> = linking.targets.iter().collect();
            targets.retain(|(symbol, _)| used.binary_search(symbol).is_ok());
            targets.sort_unstable_by_key(|(symbol, _)| *symbol);
            linking.targets = targets.into_iter().collect();
            if used.len() != linking.targets.len() {
                let problem = "a pass has added a reference after pruning; do that at Stage::Prune"
                    .to_owned();
                return Err(Error::Unsupported { file: linking.graph.name().to_string(), problem });
            }
            Ok(())
        })
    }

    /// Finds the definitions of a graph's external symbols, and the objects that they need.
    fn find_targets(
        &self,
        state: &mut State,
        batch: &mut Batch,
        index: usize,
        symbols: Vec<SymbolId>,
        needed: &mut Vec<NeededObject>,
    ) -> Result<()> {
        let LinkingObject { graph, library, targets, .. } = &mut batch.members[index];
        let own_names = [&b"_GLOBAL_OFFSET_TABLE_"[..], b"_TLS_MODULE_BASE_", b"__dso_handle"];
        let symbols: Vec<_> = symbols
            .into_iter()
            .map(|id| graph.symbol(id))
            .filter(|symbol| !own_names.contains(&symbol.name))
            .collect();
        let renamed = state.all_wrapped(*library, &symbols);
        let wanted = symbols.iter().enumerate();
        let wanted: Vec<_> = wanted
            .map(|(index, symbol)| wanted_of(symbol, renamed.get(index).and_then(Option::as_deref)))
            .collect();
        let order = state.reference_order(*library);
        let found = self.resolve(state, *library, &order, &wanted)?;
        targets.reserve(symbols.len());
        for ((symbol, wanted), found) in symbols.iter().zip(&wanted).zip(found) {
            match found {
                Some(found) => {
                    check_thread_local(state, graph, symbol, found)?;
                    needed.extend(state.need_of(found));
                }
                None if symbol.linkage == Linkage::Weak => {}
                None if self.options.phony_externals.is_some() => {}
                // The name may be a bound of the sections of any member, or of the program.
                None if bounded_section(symbol.name).is_some() => {}
                None if program_bound(symbol.name).is_some() => {}
                None => {
                    let name = for_message(wanted.name);
                    batch.missing.push(Undefined { symbol: name, file: graph.name().to_string() });
                    continue;
                }
            }
            targets.push(symbol.id, found);
        }
        Ok(())
    }
}

impl State {
    /// Returns the object that defines a symbol, and the symbol there.
    pub(super) fn owner_of(&self, found: DefinitionId) -> Option<(ObjectId, SymbolId)> {
        let entry = self.entry(found);
        match entry.owner {
            Owner::Object(object) => Some((object, SymbolId::from_index(entry.symbol))),
            _ => None,
        }
    }

    /// Returns the same as [`Self::owner_of`], as a need of that symbol.
    fn need_of(&self, found: DefinitionId) -> Option<NeededObject> {
        self.owner_of(found).map(|(object, symbol)| (object, Extent::Symbol(symbol)))
    }

    /// Returns the replacement names for references of a library's objects; empty if the library
    /// wraps nothing.
    fn all_wrapped(&self, library: LibraryId, symbols: &[Symbol<'_>]) -> Vec<Option<Arc<[u8]>>> {
        if !self.wraps(library) {
            return Vec::new();
        }
        symbols.iter().map(|symbol| self.wrapped(library, symbol.name)).collect()
    }

    /// Returns the alignments that other objects require of an object's common symbols.
    fn common_alignments_of(&self, id: ObjectId) -> impl Iterator<Item = (SymbolId, u64)> {
        let object = self.object(id);
        let library = self.library(object.library);
        let entries = (!library.common_alignments.is_empty()).then(|| object.entries.iter());
        entries.into_iter().flatten().filter_map(move |entry| {
            let alignment = *library.common_alignments.get(&entry)?;
            let symbol = library.table.symbol_of(id, entry)?;
            Some((SymbolId::from_index(symbol), alignment))
        })
    }

    /// Returns the objects among the needed ones, each once, that are neither linked nor in the
    /// batch yet.
    fn pending_of(&self, needed: &[NeededObject], batch: &Batch) -> Vec<ObjectId> {
        let objects = needed.iter().map(|(object, _)| *object);
        let objects: HashSet<ObjectId> =
            objects.filter(|object| self.is_pending(*object, batch)).collect();
        let mut objects: Vec<ObjectId> = objects.into_iter().collect();
        objects.sort_unstable();
        objects
    }

    /// Returns whether an object is neither linked nor in a batch yet.
    fn is_pending(&self, object: ObjectId, batch: &Batch) -> bool {
        matches!(self.object(object).phase, Phase::Pending(_)) && batch.index_of(object).is_none()
    }
}

impl Batch {
    /// Looks the targets of unresolved weak references up again, in case other references have had
    /// them generated, and returns the objects that they need.
    fn find_missing(&mut self, state: &State) -> Result<Vec<NeededObject>> {
        let mut needed = Vec::new();
        for LinkingObject { graph, library, targets, .. } in &mut self.members {
            let is_weak = |symbol| graph.symbol(symbol).linkage == Linkage::Weak;
            if !targets.iter().any(|(symbol, found)| found.is_none() && is_weak(symbol)) {
                continue;
            }
            let mut all: Vec<_> = targets.iter().collect();
            for (symbol, target) in all.iter_mut().filter(|(_, target)| target.is_none()) {
                let symbol = graph.symbol(*symbol);
                let renamed = state.wrapped(*library, symbol.name);
                let wanted = wanted_of(&symbol, renamed.as_deref());
                let Some(found) =
                    wanted.weak.then(|| state.find_defined(*library, wanted)).flatten()
                else {
                    continue;
                };
                check_thread_local(state, graph, &symbol, found)?;
                *target = Some(found);
                needed.extend(state.need_of(found));
            }
            *targets = all.into_iter().collect();
        }
        Ok(needed)
    }

    /// Follows edges from the needed parts, and returns each graph's newly reached external
    /// symbols.
    fn follow(&mut self, needed: &[NeededObject]) -> Vec<(usize, Vec<SymbolId>)> {
        let mut roots: HashMap<usize, Vec<SymbolId>> = HashMap::new();
        for (object, extent) in needed {
            let Some(index) = self.index_of(*object) else { continue };
            let graph = &self.members[index].graph;
            let roots = roots.entry(index).or_default();
            match extent {
                Extent::Symbol(symbol) => roots.push(*symbol),
                Extent::Whole => roots.extend(graph.defined_symbols()),
                Extent::Kept => {}
            }
        }
        let mut reached: BTreeMap<usize, Vec<SymbolId>> = BTreeMap::new();
        for (index, roots) in roots {
            let LinkingObject { graph, pruning, .. } = &mut self.members[index];
            let Some(pruning) = pruning else { continue };
            reached.insert(index, graph.reach(pruning, &roots));
            let bounded = pruning.take_bounded();
            self.note_bounded(bounded);
        }
        self.keep_bounded(&mut reached);
        reached.into_iter().collect()
    }

    /// Keeps the sections of all members whose bounds any of them refers to, and adds their
    /// external symbols to `reached`.
    fn keep_bounded(&mut self, reached: &mut BTreeMap<usize, Vec<SymbolId>>) {
        while let Some(index) = self.next_without_bounded() {
            let LinkingObject { graph, pruning, bounded, .. } = &mut self.members[index];
            let names = &self.bounded[*bounded..];
            *bounded = self.bounded.len();
            let Some(pruning) = pruning else { continue };
            let symbols = graph.reach_sections(pruning, names);
            reached.entry(index).or_default().extend(symbols);
            let bounded = pruning.take_bounded();
            self.note_bounded(bounded);
        }
    }

    fn note_bounded(&mut self, names: Vec<Vec<u8>>) {
        for name in names {
            if !self.bounded_known.contains(&name) {
                self.bounded_known.insert(name.clone());
                self.bounded.push(name);
            }
        }
    }

    /// Returns the first member not yet searched for all sections with bounds.
    fn next_without_bounded(&mut self) -> Option<usize> {
        if self.bounded.len() != self.bounded_kept.0 {
            self.bounded_kept = (self.bounded.len(), 0);
        }
        let (names, members) = &mut self.bounded_kept;
        while self.members.get(*members).is_some_and(|member| member.bounded == *names) {
            *members += 1;
        }
        (*members < self.members.len()).then_some(*members)
    }

    /// Sorts members by the order in which their objects were added. Their sections lie in this
    /// order, as a system linker places them.
    fn sort_members(&mut self, state: &State) {
        self.members.sort_by_key(|linking| state.object(linking.object).serial);
        self.reindex_members();
    }
}

/// Returns the reference of a symbol, by its own name or a replacement.
fn wanted_of<'a>(symbol: &Symbol<'a>, renamed: Option<&'a [u8]>) -> NameQuery<'a> {
    let wanted = NameQuery::from_symbol(symbol);
    let name = renamed.unwrap_or(wanted.name);
    // A symbol of the process with the name of a bound belongs to another program.
    NameQuery { name, hidden: wanted.hidden || program_bound(name).is_some(), ..wanted }
}

/// Refuses a reference that takes a thread-local variable for another symbol, or the other way
/// round.
fn check_thread_local(
    state: &State,
    graph: &LinkGraph,
    symbol: &Symbol<'_>,
    found: DefinitionId,
) -> Result<()> {
    let is_thread_local = state.entry(found).flags.contains(Flags::THREAD_LOCAL);
    if is_thread_local == symbol.thread_local {
        return Ok(());
    }
    let name = for_message(symbol.name);
    let (here, there) = if is_thread_local { ("not ", "") } else { ("", "not ") };
    let problem = format!(
        "it takes {name} for a symbol that is {here}thread-local, and its definition is {there}thread-local"
    );
    Err(Error::Unsupported { file: graph.name().to_string(), problem })
}
