//! Linking: reading graphs, finding what they need, giving them memory and fixing them up, several objects together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::{join_all, try_join_all};
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::copies::Copies;
use super::initializers::Initializers;
use super::pass::Stage;
use super::resolve::{Found, Wanted};
use super::state::{DsoHandle, LibraryId, Linked, ObjectId, Phase, Source, State, Tls, TlsStorage};
use super::table::{Entry, EntryId, Flags, Owner};
use super::times::lap;
use super::{Lookup, Shared};
use crate::debug::{LinkedFunction, LinkedObject, Registration};
use crate::error::for_message;
use crate::graph::{
    Definition, External, ExternalKind, Externals, LinkGraph, Linkage, Pruning, Reach, Symbol,
    SymbolId, ThreadLocalPlace, TlsLayout,
};
use crate::memory::{
    ActionPair, AllocationRequest, FinalizedAllocation, Lifetime, Placement, Protection,
};
use crate::runtime::process_data::size_of_data;
use crate::runtime::{TlsModule, tls_descriptor, unwind};
use crate::{Error, Result, Undefined};

/// An object while it is linked.
pub(super) struct Linking {
    pub(super) object: ObjectId,
    pub(super) library: LibraryId,
    pub(super) graph: LinkGraph,
    pruning: Option<Pruning>,
    /// The symbols that are not in the graph, in order.
    targets: Vec<(SymbolId, Target)>,
    tls: Option<Tls>,
    /// For copies of data, in the order of the originals' addresses: the symbols that they define, and what these were.
    pub(super) replaced: Vec<(EntryId, Entry)>,
}

/// How the thread-local variables of objects of a batch are found, and their templates.
type TlsOf = HashMap<ObjectId, (TlsLayout, u64)>;

/// What a symbol outside of a graph is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    Found(Found),
    /// Nothing defines it, and that is allowed.
    Missing,
    /// Nothing defines it, and it is taken to be at this address.
    Phony,
}

/// What is linked together.
#[derive(Default)]
struct Batch {
    members: Vec<Linking>,
    index: HashMap<ObjectId, usize>,
    missing: Vec<Undefined>,
}

impl Shared {
    pub(super) fn lookup(
        &self,
        library: LibraryId,
        names: &[(&str, Lookup)],
    ) -> Result<Vec<Option<u64>>> {
        self.linking(|state| self.look_up_in(state, library, names))
    }

    fn look_up_in(
        &self,
        state: &mut State,
        library: LibraryId,
        names: &[(&str, Lookup)],
    ) -> Result<Vec<Option<u64>>> {
        let wanted: Vec<_> = names
            .iter()
            .map(|(name, _)| Wanted { name: name.as_bytes(), ..Wanted::default() })
            .collect();
        let found = self.resolve(state, library, &wanted)?;
        let is_variable = |found: &Option<Found>| {
            found.is_some_and(|found| state.entry(found).flags.contains(Flags::THREAD_LOCAL))
        };
        if let Some(((name, _), _)) = names.iter().zip(&found).find(|(_, found)| is_variable(found))
        {
            let problem =
                "it is thread-local: it has an address in each thread, and no other".to_owned();
            return Err(Error::Unsupported { file: (*name).to_owned(), problem });
        }
        let undefined = missing(names, &found);
        self.link(state, found.iter().flatten().copied().collect(), Vec::new(), undefined)?;
        // A pass may have taken out what was found.
        let address = |found| {
            let entry = state.entry(found);
            (entry.owner != Owner::Nobody).then_some(entry.address)
        };
        let addresses: Vec<_> = found.into_iter().map(|found| address(found?)).collect();
        let undefined = missing(names, &addresses);
        if undefined.is_empty() { Ok(addresses) } else { Err(Error::Undefined(undefined)) }
    }

    pub(super) fn link_all(&self, library: LibraryId) -> Result<()> {
        let pending = |phase: &Phase| matches!(phase, Phase::Pending(_));
        self.linking(|state| {
            let objects = state
                .objects_of(library)
                .filter(|(_, object)| pending(&object.phase))
                .map(|(id, _)| id)
                .collect();
            self.link(state, Vec::new(), objects, Vec::new())
        })
    }

    /// Links the objects that have constructors.
    pub(super) fn link_constructors(&self, library: LibraryId) -> Result<()> {
        let constructs = |phase: &Phase| match phase {
            Phase::Pending(Source::Elf(object)) => {
                let view = object.view();
                Initializers::are_in(view.sections.iter().map(|section| view.section_name(section)))
            }
            Phase::Pending(Source::Made(make)) => {
                Initializers::are_in(make().sections().map(|section| section.name.to_vec()))
            }
            _ => false,
        };
        self.linking(|state| {
            let objects = state
                .objects_of(library)
                .filter(|(_, object)| constructs(&object.phase))
                .map(|(id, _)| id)
                .collect();
            self.link(state, Vec::new(), objects, Vec::new())
        })
    }

    /// Links what defines `roots`, the given objects whole, and everything that these need. Either all of it is linked or
    /// nothing.
    fn link(
        &self,
        state: &mut State,
        roots: Vec<Found>,
        objects: Vec<ObjectId>,
        missing: Vec<Undefined>,
    ) -> Result<()> {
        let mut batch = Batch { missing, ..Batch::default() };
        self.gather(state, &mut batch, &roots, &objects)?;
        if !batch.missing.is_empty() {
            return Err(Error::Undefined(batch.missing));
        }
        if batch.members.is_empty() {
            return Ok(());
        }
        let placement = self.placement(&batch);
        let copies = Copies::make(self, state, &mut batch.members, placement)?;
        let result = self.link_batch(state, &mut batch, placement);
        if result.is_err() {
            copies.undo(state);
        }
        result
    }

    /// Reads the graphs of everything that is needed, and finds what their symbols are.
    fn gather(
        &self,
        state: &mut State,
        batch: &mut Batch,
        roots: &[Found],
        objects: &[ObjectId],
    ) -> Result<()> {
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
            let fresh = state.pending_of(&needed, &batch.index);
            batch.members.extend(self.read_all(state, &fresh)?);
            for (index, linking) in batch.members.iter().enumerate().skip(first) {
                batch.index.insert(linking.object, index);
            }
            let reached = if self.options.prunes {
                batch.follow(&needed)
            } else {
                (first..batch.members.len())
                    .map(|index| (index, batch.members[index].graph.undefined().collect()))
                    .collect()
            };
            needed.clear();
            state.times.read += lap(&mut clock);
            for (index, symbols) in reached {
                self.find_targets(state, batch, index, symbols, &mut needed)?;
            }
            if needed.is_empty() {
                needed = batch.find_missing(state)?;
            }
            state.times.resolve += lap(&mut clock);
        }
        if self.options.prunes {
            let mut clock = Instant::now();
            self.finish_pruning(batch)?;
            state.times.read += lap(&mut clock);
        }
        Ok(())
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
                Source::Made(make) => make(),
            };
            graph.discard_groups(&object.lost_groups)?;
            for symbol in &object.lost {
                graph.redefine(SymbolId::from_index(symbol.symbol), Definition::External);
            }
            self.options.passes.run(Stage::Prune, &mut graph)?;
            let pruning = self.options.prunes.then(|| graph.start_pruning());
            if pruning.is_none() {
                self.options.passes.run(Stage::PostPrune, &mut graph)?;
                graph.scan()?;
            }
            Ok(Linking { pruning, ..Linking::new(*id, object.library, graph) })
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
            linking.targets.sort_unstable_by_key(|(symbol, _)| *symbol);
            linking.targets.retain(|(symbol, _)| used.binary_search(symbol).is_ok());
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
        let own_names = |name: &[u8]| {
            [&b"_GLOBAL_OFFSET_TABLE_"[..], b"_TLS_MODULE_BASE_", b"__dso_handle"].contains(&name)
                || graph.has_bound(name)
        };
        let symbols: Vec<_> =
            symbols.into_iter().map(|id| graph.symbol(id)).filter(|s| !own_names(s.name)).collect();
        let wanted: Vec<_> = symbols.iter().map(Wanted::of).collect();
        let found = self.resolve(state, *library, &wanted)?;
        targets.reserve_exact(symbols.len());
        for (symbol, found) in symbols.iter().zip(found) {
            let target = match (found, self.options.phony_externals) {
                (Some(found), _) => {
                    check_thread_local(state, graph, symbol, found)?;
                    needed.extend(
                        state.owner_of(found).map(|(object, symbol)| (object, Some(symbol))),
                    );
                    Target::Found(found)
                }
                (None, _) if symbol.linkage == Linkage::Weak => Target::Missing,
                (None, Some(_)) => Target::Phony,
                (None, None) => {
                    let name = for_message(symbol.name);
                    batch.missing.push(Undefined { symbol: name, file: graph.name().to_string() });
                    continue;
                }
            };
            targets.push((symbol.id, target));
        }
        Ok(())
    }

    fn placement(&self, batch: &Batch) -> Placement {
        match batch.members.iter().any(|linking| linking.graph.is_narrow()) {
            true => Placement::Low,
            false => self.options.placement,
        }
    }

    /// From graphs whose symbols are known to memory that can be executed.
    fn link_batch(&self, state: &mut State, batch: &mut Batch, placement: Placement) -> Result<()> {
        let mut clock = Instant::now();
        self.allocate_batch(state, batch, placement, Reach::Session)?;
        if !batch.members.iter().all(|linking| linking.graph.is_within_reach()) {
            for linking in &mut batch.members {
                linking.graph.take_allocation();
            }
            self.allocate_batch(state, batch, placement, Reach::Graph)?;
        }
        if !self.options.passes.is_empty() {
            for linking in &mut batch.members {
                self.options.passes.run(Stage::PostAllocation, &mut linking.graph)?;
            }
            // A pass may have defined symbols elsewhere.
            self.exchange_addresses(state, batch);
        }
        let run =
            |stage| move |linking: &mut Linking| self.options.passes.run(stage, &mut linking.graph);
        let threads = self.options.threads;
        state.times.allocate += lap(&mut clock);
        parallel_mut(threads, &mut batch.members, |linking| {
            run(Stage::PreFixup)(linking)?;
            linking
                .graph
                .fix_up(linking.tls.as_ref().map_or(self.tls_layout(), |tls| tls.layout))?;
            linking.initialize_static_tls()?;
            run(Stage::PostFixup)(linking)
        })?;
        state.times.fix_up += lap(&mut clock);
        state.times.objects += batch.members.len();
        state.times.bytes +=
            batch.members.iter().map(|linking| linking.graph.memory_size()).sum::<u64>();
        self.finalize_batch(state, batch)?;
        state.times.finalize += lap(&mut clock);
        Ok(())
    }

    /// Memory, and with it every address.
    fn allocate_batch(
        &self,
        state: &mut State,
        batch: &mut Batch,
        placement: Placement,
        reach: Reach,
    ) -> Result<()> {
        let phony = self.options.phony_externals.unwrap_or(0);
        {
            let state = &*state;
            let requests = parallel_mut_map(self.options.threads, &mut batch.members, |linking| {
                let externals = linking.externals(state, &TlsOf::new(), phony);
                linking.graph.reserve_tables(externals, reach);
                linking.graph.lay_out()
            })?;
            let allocate = |(linking, segments): (&Linking, &Vec<_>)| {
                self.memory.allocate(AllocationRequest {
                    name: linking.graph.name(),
                    segments,
                    placement,
                })
            };
            let allocations = pollster::block_on(try_join_all(
                batch.members.iter().zip(&requests).map(allocate),
            ))?;
            for (linking, allocation) in batch.members.iter_mut().zip(allocations) {
                linking.graph.place_segments(allocation);
            }
        }
        self.place_thread_locals(batch)?;
        self.exchange_addresses(state, batch);
        Ok(())
    }

    /// Tells each graph the addresses of what the others define.
    fn exchange_addresses(&self, state: &mut State, batch: &mut Batch) {
        let phony = self.options.phony_externals.unwrap_or(0);
        batch.publish(state);
        let tls: TlsOf = batch
            .members
            .iter()
            .filter_map(|linking| {
                Some((linking.object, linking.tls.as_ref().map(|tls| (tls.layout, tls.template))?))
            })
            .collect();
        for linking in &mut batch.members {
            let externals = linking.externals(state, &tls, phony);
            linking.graph.set_externals(externals);
        }
    }

    /// Where thread-local variables live: at a fixed offset from the thread pointer if any code of the batch wants that.
    fn place_thread_locals(&self, batch: &mut Batch) -> Result<()> {
        let fixed = batch.members.iter().any(|linking| linking.graph.uses_thread_pointer());
        for linking in &mut batch.members {
            let Some((template, address)) = linking.graph.tls_template() else { continue };
            let mut layout = self.tls_layout();
            let storage = match self.options.static_tls {
                _ if !self.options.executes => {
                    layout.module = 1;
                    layout.from_thread_pointer = Some(0);
                    TlsStorage::None
                }
                Some(reserve) if fixed => {
                    let block = reserve.allocate(template.size, template.alignment)?;
                    let offset = block.offset_from_thread_pointer();
                    layout.from_thread_pointer = Some(offset);
                    (layout.module, layout.module_offset) =
                        crate::runtime::static_tls::module_and_offset(offset);
                    TlsStorage::Static(block)
                }
                _ => {
                    let module = TlsModule::new(
                        address,
                        template.content_size,
                        template.size,
                        template.alignment,
                    )?;
                    layout.module = module.handle();
                    TlsStorage::Dynamic(module)
                }
            };
            linking.tls = Some(Tls { layout, template: address, storage });
        }
        Ok(())
    }

    fn tls_layout(&self) -> TlsLayout {
        if !self.options.executes {
            return TlsLayout::default();
        }
        let (static_resolver, dynamic_resolver) =
            (tls_descriptor::static_resolver(), tls_descriptor::dynamic_resolver());
        TlsLayout { static_resolver, dynamic_resolver, ..TlsLayout::default() }
    }

    fn finalize_batch(&self, state: &mut State, batch: &mut Batch) -> Result<()> {
        let initializers: Vec<Initializers> =
            batch.members.iter_mut().map(|linking| Initializers::of(&mut linking.graph)).collect();
        let done = self.finalize_memory(state, batch)?;
        for ((linking, allocation), initializers) in
            batch.members.drain(..).zip(done).zip(initializers)
        {
            if self.options.prunes || !self.options.passes.is_empty() {
                state.disown_pruned(&linking);
            }
            let debug = self.announce(state, &linking);
            let linked = Linked {
                allocation,
                range: linking.graph.address_range(),
                uses: linking.uses(state),
                initializers,
                dso_handle: self.dso_handle(state, &linking),
                tls: linking.tls,
                debug,
                replaced: linking.replaced,
            };
            state.object_mut(linking.object).phase = Phase::Linked(Box::new(linked));
        }
        Ok(())
    }

    /// Finalizes the memory of all members, or of none. Indirect functions are resolved when everything that their resolvers may call
    /// is there, so with the last member.
    fn finalize_memory(
        &self,
        state: &State,
        batch: &mut Batch,
    ) -> Result<Vec<FinalizedAllocation>> {
        let resolve =
            batch.members.iter().flat_map(|linking| self.resolve_actions(&linking.graph)).collect();
        let finalize = |linking: &mut Linking, further: Vec<ActionPair>| {
            let actions = self.actions(state, linking).into_iter().chain(further).collect();
            let allocation = linking
                .graph
                .take_allocation()
                .expect("every member has been fixed up in its memory");
            allocation.finalize(actions)
        };
        let Some((last, others)) = batch.members.split_last_mut() else { return Ok(Vec::new()) };
        let others: Vec<_> =
            others.iter_mut().map(|linking| finalize(linking, Vec::new())).collect();
        let mut results = pollster::block_on(join_all(others));
        if results.iter().all(Result::is_ok) {
            results.push(pollster::block_on(finalize(last, resolve)));
        }
        let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        let done: Vec<FinalizedAllocation> = done.into_iter().flatten().collect();
        let Some(Err(error)) = failed.into_iter().next() else { return Ok(done) };
        if let Err(undo) = pollster::block_on(self.memory.deallocate(done)) {
            log::warn!("giving back the memory of a link that failed: {undo}");
        }
        Err(error)
    }

    fn dso_handle(&self, state: &State, linking: &Linking) -> Option<DsoHandle> {
        let address = linking.graph.dso_handle().filter(|_| self.options.executes)?;
        Some(DsoHandle::new(&state.library(linking.library).scope, address))
    }

    /// What the executing side has to do for a graph.
    fn actions(&self, state: &State, linking: &Linking) -> Vec<ActionPair> {
        let graph = &linking.graph;
        if !self.options.executes {
            return Vec::new();
        }
        let frames = graph.frame_sections().into_iter().map(|(address, size)| {
            // SAFETY: who made the session vouches for the frames, which lie in memory that lives as long as the actions.
            unsafe { unwind::frame_actions(address, size) }
        });
        frames.chain(self.rebinding(state, linking)).collect()
    }

    /// The calls of the resolvers of indirect functions.
    fn resolve_actions(&self, graph: &LinkGraph) -> Vec<ActionPair> {
        if !self.options.executes {
            return Vec::new();
        }
        let indirect = graph.indirect_functions().into_iter().map(|(slot, function)| {
            // SAFETY: who made the session vouches for the resolver; the slot is the graph's own.
            unsafe { crate::runtime::indirect::resolve_action(slot, function) }
        });
        indirect.collect()
    }

    fn announce(&self, state: &State, linking: &Linking) -> Option<Registration> {
        let debug = self.options.debug.as_ref().filter(|_| self.options.executes)?;
        let graph = &linking.graph;
        let Phase::Pending(Source::Elf(_)) = &state.object(linking.object).phase else {
            return None;
        };
        let functions: Vec<LinkedFunction<'_>> = graph
            .symbols()
            .filter(|symbol| symbol.callable && symbol.size > 0)
            .filter_map(|symbol| {
                let Definition::Block(block, offset) = symbol.definition else { return None };
                let block = graph.block(block);
                let section = graph.section(block.section);
                let stays = section.protection == Protection::ReadExecute
                    && section.lifetime == Lifetime::Standard;
                (block.live && stays && offset.checked_add(symbol.size)? <= block.size)
                    .then_some(())?;
                let address = block.address + offset;
                // SAFETY: the function lies in a block of executable memory of this process, which was just finalized and is
                // not given back while this object is being linked.
                let code = unsafe {
                    std::slice::from_raw_parts(address as *const u8, symbol.size as usize)
                };
                Some(LinkedFunction {
                    name: std::str::from_utf8(symbol.name).ok()?,
                    address,
                    size: symbol.size,
                    code,
                })
            })
            .collect();
        let sections = graph.section_addresses();
        let object = LinkedObject {
            name: graph.name(),
            bytes: graph.object_bytes(),
            sections: &sections,
            functions: &functions,
        };
        Some(debug.object_linked(&object))
    }
}

impl State {
    pub(super) fn entry(&self, (library, entry): Found) -> super::table::Entry {
        self.library(library).table.entry(entry)
    }

    /// The object that defines a symbol, and the symbol there.
    fn owner_of(&self, found: Found) -> Option<(ObjectId, SymbolId)> {
        let entry = self.entry(found);
        match entry.owner {
            Owner::Object(object) => Some((object, SymbolId::from_index(entry.symbol))),
            _ => None,
        }
    }

    /// What was pruned is not there for later look-ups.
    fn disown_pruned(&mut self, linking: &Linking) {
        for id in self.object(linking.object).entries.clone() {
            let table = &mut self.library_mut(linking.library).table;
            let Entry { owner, symbol, .. } = table.entry(id);
            let gone = linking.graph.exported_address(SymbolId::from_index(symbol)).is_none();
            if owner == Owner::Object(linking.object) && gone {
                table.disown(id);
            }
        }
    }

    /// Those objects, each once, that are neither linked nor in a batch yet.
    fn pending_of(
        &self,
        needed: &[(ObjectId, Option<SymbolId>)],
        batch: &HashMap<ObjectId, usize>,
    ) -> Vec<ObjectId> {
        let pending = |id: &ObjectId| {
            matches!(self.object(*id).phase, Phase::Pending(_)) && !batch.contains_key(id)
        };
        let mut objects: Vec<ObjectId> =
            needed.iter().map(|(object, _)| *object).filter(pending).collect();
        objects.sort_unstable();
        objects.dedup();
        objects
    }
}

impl Batch {
    /// Finds again what weak references did not, now that others have had it generated, and says which objects they need.
    fn find_missing(&mut self, state: &State) -> Result<Vec<(ObjectId, Option<SymbolId>)>> {
        let mut needed = Vec::new();
        for Linking { graph, library, targets, .. } in &mut self.members {
            let missing =
                targets.iter_mut().filter(|(_, target)| matches!(target, Target::Missing));
            for (symbol, target) in missing {
                let symbol = graph.symbol(*symbol);
                let Some(found) = state.find_defined(*library, Wanted::of(&symbol)) else {
                    continue;
                };
                check_thread_local(state, graph, &symbol, found)?;
                *target = Target::Found(found);
                needed.extend(state.owner_of(found).map(|(id, symbol)| (id, Some(symbol))));
            }
        }
        Ok(needed)
    }

    /// Follows edges from the symbols that are needed, and says what each graph needs from others now.
    fn follow(&mut self, needed: &[(ObjectId, Option<SymbolId>)]) -> Vec<(usize, Vec<SymbolId>)> {
        let mut roots: HashMap<usize, Vec<SymbolId>> = HashMap::new();
        for (object, symbol) in needed {
            let Some(&index) = self.index.get(object) else { continue };
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

    /// Gives the addresses of what the graphs define to their libraries' tables.
    fn publish(&self, state: &mut State) {
        for linking in &self.members {
            let entries = std::mem::take(&mut state.object_mut(linking.object).entries);
            let table = &mut state.library_mut(linking.library).table;
            for id in &entries {
                let entry = table.entry(*id);
                if entry.owner != Owner::Object(linking.object) {
                    continue;
                }
                let symbol = SymbolId::from_index(entry.symbol);
                if let Some(address) = linking.graph.exported_address(symbol) {
                    table.set_address(*id, address);
                }
            }
            state.object_mut(linking.object).entries = entries;
        }
    }
}

impl Linking {
    /// A graph that needs nothing from others.
    pub(super) fn new(object: ObjectId, library: LibraryId, graph: LinkGraph) -> Self {
        Self {
            object,
            library,
            graph,
            pruning: None,
            targets: Vec::new(),
            tls: None,
            replaced: Vec::new(),
        }
    }

    /// The definitions that it refers to by an address or distance of 32 bits.
    pub(super) fn nearby_targets(&self) -> impl Iterator<Item = Found> {
        self.targets.iter().filter(|(symbol, _)| self.graph.wants_nearby(*symbol)).filter_map(
            |(_, target)| match target {
                Target::Found(found) => Some(*found),
                _ => None,
            },
        )
    }

    /// What the symbols are that the graph does not define, with the addresses that are known by now.
    fn externals(&self, state: &State, tls: &TlsOf, phony: u64) -> Externals {
        let mut externals = Externals {
            symbols: Vec::with_capacity(self.targets.len()),
            thread_locals: Vec::new(),
        };
        for (symbol, target) in &self.targets {
            let symbol = *symbol;
            let external = match target {
                Target::Missing => External { symbol, address: 0, kind: ExternalKind::Missing },
                Target::Phony => External {
                    symbol,
                    address: phony,
                    kind: ExternalKind::Process { callable: true },
                },
                Target::Found(found) => {
                    let entry = state.entry(*found);
                    let (address, kind) = match entry.owner {
                        _ if entry.flags.contains(Flags::THREAD_LOCAL) => {
                            let (offset, place) = thread_local(state, tls, *found);
                            externals.thread_locals.push(place);
                            (
                                offset,
                                ExternalKind::ThreadLocal(externals.thread_locals.len() as u32 - 1),
                            )
                        }
                        Owner::Object(_) => (entry.address, ExternalKind::Linked),
                        // A stub can stand in for a function of the process, not for data nor for an address that was given.
                        _ => {
                            let is_process = entry.flags.contains(Flags::GENERATED);
                            let nearby = self.graph.wants_nearby(symbol);
                            let callable =
                                !nearby || is_process && size_of_data(entry.address).is_none();
                            (entry.address, ExternalKind::Process { callable })
                        }
                    };
                    External { symbol, address, kind }
                }
            };
            externals.symbols.push(external);
        }
        externals
    }

    /// The template at a fixed offset is final now.
    fn initialize_static_tls(&mut self) -> Result<()> {
        let (Some(tls), Some((template, _))) = (&self.tls, self.graph.tls_template()) else {
            return Ok(());
        };
        let TlsStorage::Static(block) = &tls.storage else { return Ok(()) };
        block.initialise(
            &self.graph.working_memory(template.segment)[..template.content_size as usize],
        )
    }

    /// The objects that this one uses.
    fn uses(&self, state: &State) -> Vec<ObjectId> {
        let found = self.targets.iter().filter_map(|(_, target)| match target {
            Target::Found(found) => Some(state.owner_of(*found)?.0),
            _ => None,
        });
        let mut uses: Vec<ObjectId> = found.filter(|object| *object != self.object).collect();
        uses.sort_unstable();
        uses.dedup();
        uses
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

/// Offset in its module, and where that is, of a thread-local variable of another object or of the process.
fn thread_local(state: &State, tls: &TlsOf, (library, id): Found) -> (u64, ThreadLocalPlace) {
    let entry = state.entry((library, id));
    if entry.owner == Owner::Absolute
        && let Some(variable) = state.library(library).thread_locals.get(&id)
    {
        let (module, from_thread_pointer) = (variable.module, variable.offset_from_thread_pointer);
        return (variable.offset, ThreadLocalPlace { module, from_thread_pointer });
    }
    let layout = match entry.owner {
        Owner::Object(owner) => {
            tls.get(&owner).copied().or_else(|| match &state.object(owner).phase {
                Phase::Linked(linked) => linked.tls.as_ref().map(|tls| (tls.layout, tls.template)),
                _ => None,
            })
        }
        _ => None,
    };
    let (layout, template) = layout.unwrap_or_default();
    let offset = entry.address.wrapping_sub(template);
    let from_thread_pointer =
        layout.from_thread_pointer.map(|start| start.wrapping_add(offset as i64));
    (
        layout.module_offset.wrapping_add(offset),
        ThreadLocalPlace { module: layout.module, from_thread_pointer },
    )
}

/// The names that are required and were not found.
fn missing<T>(names: &[(&str, Lookup)], found: &[Option<T>]) -> Vec<Undefined> {
    let missing = |((_, lookup), found): &(&(&str, Lookup), &Option<T>)| {
        *lookup == Lookup::Required && found.is_none()
    };
    let names = names.iter().zip(found).filter(missing).map(|((name, _), _)| name);
    names.map(|name| Undefined { symbol: (*name).to_owned(), file: String::new() }).collect()
}

fn parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    f: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        while let Some((index, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?)))
        {
            let result = f(item);
            done.lock().push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            // With fewer threads it only takes longer.
            _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn parallel_mut_map<T: Send, R: Send>(
    threads: usize,
    items: &mut [T],
    f: impl Fn(&mut T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter_mut().map(f).collect();
    }
    // Each item is taken by one thread; the locks are never contended.
    let items: Vec<Mutex<&mut T>> = items.iter_mut().map(Mutex::new).collect();
    parallel(threads, &items, |item| f(&mut item.lock()))
}

fn parallel_mut<T: Send>(
    threads: usize,
    items: &mut [T],
    f: impl Fn(&mut T) -> Result<()> + Sync,
) -> Result<()> {
    parallel_mut_map(threads, items, f).map(drop)
}
