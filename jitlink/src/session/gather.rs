//! What has to be linked together: the graphs of everything that is needed, and what their symbols are.

use std::time::Instant;

use hashbrown::{HashMap, HashSet};

use super::Shared;
use super::link::{Batch, Linking};
use super::parallel::{parallel, parallel_mut};
use super::pass::Stage;
use super::resolve::{Found, Wanted};
use super::state::{ObjectId, Phase, Source, State};
use super::table::{Flags, Owner};
use super::times::lap;
use crate::error::for_message;
use crate::graph::{Definition, LinkGraph, Linkage, Symbol, SymbolId, bounded_section};
use crate::memory::Placement;
use crate::{Error, Result, Undefined};

impl Shared {
    /// Reads the graphs of everything that is needed, and finds what their symbols are.
    pub(super) fn gather(
        &self,
        state: &mut State,
        missing: Vec<Undefined>,
        roots: &[Found],
        objects: &[ObjectId],
    ) -> Result<Batch> {
        let mut batch = Batch::default();
        batch.missing = missing;
        let mut needed: Vec<(ObjectId, Option<SymbolId>)> =
            objects.iter().map(|object| (*object, None)).collect();
        needed.extend(
            roots
                .iter()
                .filter_map(|root| state.owner_of(*root))
                .map(|(object, symbol)| (object, Some(symbol))),
        );
        while !needed.is_empty() {
            let mut clock = Instant::now();
            let first = batch.members.len();
            let fresh = state.pending_of(&needed, &batch);
            batch.members.extend(self.read_all(state, &fresh)?);
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
                        // Without pruning all of an object is linked, so what is in the batch says nothing new.
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
        Ok(batch)
    }

    /// Reads graphs up to the point at which their symbols are looked up.
    fn read_all(&self, state: &State, objects: &[ObjectId]) -> Result<Vec<Linking>> {
        let read = |id: &ObjectId| {
            let object = state.object(*id);
            let Phase::Pending(source) = &object.phase else {
                return Err(Error::Unsupported {
                    file: object.name.to_string(),
                    problem: "it is linked already".into(),
                });
            };
            let mut graph = match source {
                Source::Elf(elf) => LinkGraph::of_object(elf.clone())?,
                Source::Made(made) => made.make(),
            };
            graph.discard_groups(&object.lost_groups)?;
            for symbol in &object.lost {
                graph.redefine(SymbolId::from_index(symbol.symbol), Definition::External);
            }
            // A piece of an addition has entries, by which all code but its own finds it. What is pruned is found by its own code only.
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
            Ok(Linking { pruning, lost, ..Linking::new(*id, object.library, graph) })
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

    /// Finds what symbols of a graph are that it does not define, and which objects they need.
    fn find_targets(
        &self,
        state: &mut State,
        batch: &mut Batch,
        index: usize,
        symbols: Vec<SymbolId>,
        needed: &mut Vec<(ObjectId, Option<SymbolId>)>,
    ) -> Result<()> {
        let Linking { graph, library, targets, .. } = &mut batch.members[index];
        let own_names = [&b"_GLOBAL_OFFSET_TABLE_"[..], b"_TLS_MODULE_BASE_", b"__dso_handle"];
        let symbols: Vec<_> = symbols
            .into_iter()
            .map(|id| graph.symbol(id))
            .filter(|symbol| !own_names.contains(&symbol.name))
            .collect();
        let wanted: Vec<_> = symbols.iter().map(Wanted::of).collect();
        let order = state.reference_order(*library);
        let found = self.resolve(state, *library, &order, &wanted)?;
        targets.reserve(symbols.len());
        for (symbol, found) in symbols.iter().zip(found) {
            match found {
                Some(found) => {
                    check_thread_local(state, graph, symbol, found)?;
                    let owner = state.owner_of(found);
                    needed.extend(owner.map(|(object, symbol)| (object, Some(symbol))));
                }
                None if symbol.linkage == Linkage::Weak => {}
                None if self.options.phony_externals.is_some() => {}
                // Sections of any member may be meant.
                None if bounded_section(symbol.name).is_some() => {}
                None => {
                    let name = for_message(symbol.name);
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
    /// The object that defines a symbol, and the symbol there.
    pub(super) fn owner_of(&self, found: Found) -> Option<(ObjectId, SymbolId)> {
        let entry = self.entry(found);
        match entry.owner {
            Owner::Object(object) => Some((object, SymbolId::from_index(entry.symbol))),
            _ => None,
        }
    }

    /// What other objects want at least of an object's common symbols.
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

    /// Those objects, each once, that are neither linked nor in a batch yet.
    fn pending_of(&self, needed: &[(ObjectId, Option<SymbolId>)], batch: &Batch) -> Vec<ObjectId> {
        let objects = needed.iter().map(|(object, _)| *object);
        let objects: HashSet<ObjectId> =
            objects.filter(|object| self.is_pending(*object, batch)).collect();
        let mut objects: Vec<ObjectId> = objects.into_iter().collect();
        objects.sort_unstable();
        objects
    }

    /// Whether an object is neither linked nor in a batch yet.
    fn is_pending(&self, object: ObjectId, batch: &Batch) -> bool {
        matches!(self.object(object).phase, Phase::Pending(_)) && batch.index_of(object).is_none()
    }
}

impl Batch {
    /// Finds again what weak references did not, now that others have had it generated, and says which objects they need.
    fn find_missing(&mut self, state: &State) -> Result<Vec<(ObjectId, Option<SymbolId>)>> {
        let mut needed = Vec::new();
        for Linking { graph, library, targets, .. } in &mut self.members {
            let is_weak = |symbol| graph.symbol(symbol).linkage == Linkage::Weak;
            if !targets.iter().any(|(symbol, found)| found.is_none() && is_weak(symbol)) {
                continue;
            }
            let mut all: Vec<_> = targets.iter().collect();
            for (symbol, target) in all.iter_mut().filter(|(_, target)| target.is_none()) {
                let symbol = graph.symbol(*symbol);
                let wanted = Wanted::of(&symbol);
                let Some(found) =
                    wanted.weak.then(|| state.find_defined(*library, wanted)).flatten()
                else {
                    continue;
                };
                check_thread_local(state, graph, &symbol, found)?;
                *target = Some(found);
                needed.extend(state.owner_of(found).map(|(id, symbol)| (id, Some(symbol))));
            }
            *targets = all.into_iter().collect();
        }
        Ok(needed)
    }

    /// Follows edges from the symbols that are needed, and says what each graph needs from others now.
    fn follow(&mut self, needed: &[(ObjectId, Option<SymbolId>)]) -> Vec<(usize, Vec<SymbolId>)> {
        let mut roots: HashMap<usize, Vec<SymbolId>> = HashMap::new();
        for (object, symbol) in needed {
            let Some(index) = self.index_of(*object) else { continue };
            let graph = &self.members[index].graph;
            let roots = roots.entry(index).or_default();
            match symbol {
                Some(symbol) => roots.push(*symbol),
                None => roots.extend(graph.symbols().map(|symbol| symbol.id)),
            }
        }
        let mut reached: Vec<(usize, Vec<SymbolId>)> = roots
            .into_iter()
            .filter_map(|(index, roots)| {
                let Linking { graph, pruning, .. } = &mut self.members[index];
                Some((index, graph.reach(pruning.as_mut()?, &roots)))
            })
            .collect();
        reached.sort_unstable_by_key(|(index, _)| *index);
        reached
    }
}

/// Refuses a reference that takes a thread-local variable for another symbol, or the other way round.
fn check_thread_local(
    state: &State,
    graph: &LinkGraph,
    symbol: &Symbol<'_>,
    found: Found,
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
