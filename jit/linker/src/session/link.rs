//! Links: allocation of memory for graphs, and their fix-up, several objects together.

use std::ops::Range;
use std::time::Instant;

use futures_util::future::try_join_all;
use longshore_orc_rt::service::thread_locals::NewThreadLocals;

use super::batch::{Batch, LinkingObject};
use super::bounds::Bounds;
use super::copies::Copies;
use super::entry::{DefinitionId, Flags, LibraryId};
use super::gather::{Extent, LinkRoots, NeededObject};
use super::initializers::Initializers;
use super::object_state::{Phase, Source, Tls};
use super::parallel::{parallel, parallel_mut, parallel_mut_map};
use super::pass::{Delivery, Stage};
use super::resolve::NameQuery;
use super::runtime::AcquiredResources;
use super::state::State;
use super::times::lap;
use super::{ExtraObjects, Lookup, Shared};
use crate::error::for_message;
use crate::graph::{Definition, Externals, Reach, TlsLayout};
use crate::memory::{AllocationRequest, InFlight, ObjectRequest, Placement, Protection};
use crate::{Error, Result, Undefined};

/// The parts of a look-up besides its names.
#[derive(Default)]
struct LookupExtras {
    objects: Vec<NeededObject>,
    /// Whether the first name is the entry of a program.
    calls_first: bool,
}

impl Shared {
    pub(super) fn lookup(
        &self,
        library: LibraryId,
        names: &[(&str, Lookup)],
    ) -> Result<Vec<Option<u64>>> {
        self.linking(|state| {
            let order = state.search_order(library);
            self.look_up_in(state, library, &order, names, LookupExtras::default())
        })
    }

    /// Links the entry of a program, together with the objects that further names need and objects
    /// of the library that nothing needs. Returns the entry's address.
    pub(super) fn link_program(
        &self,
        library: LibraryId,
        entry: (&str, Lookup),
        undefined: &[&str],
        also: ExtraObjects,
    ) -> Result<Option<u64>> {
        self.linking(|state| {
            let order = state.search_order(library);
            let objects = match also {
                ExtraObjects::Constructors => state.with_constructors(library, Extent::Kept),
                ExtraObjects::All => state.pending(library, |_| true, Extent::Whole),
            };
            let besides = LookupExtras { objects, calls_first: true };
            let names = with_undefined(entry, undefined);
            Ok(self.look_up_in(state, library, &order, &names, besides)?[0])
        })
    }

    /// Looks names up in that library only.
    pub(super) fn lookup_own(
        &self,
        library: LibraryId,
        names: &[(&str, Lookup)],
    ) -> Result<Vec<Option<u64>>> {
        self.linking(|state| {
            self.look_up_in(state, library, &[library], names, LookupExtras::default())
        })
    }

    /// Links as [`Self::link_program`] does, in that library only, with the whole objects that have
    /// constructors.
    pub(super) fn link_own_program(
        &self,
        library: LibraryId,
        entry: &str,
        undefined: &[&str],
    ) -> Result<Option<u64>> {
        self.linking(|state| {
            let objects = state.with_constructors(library, Extent::Whole);
            let besides = LookupExtras { objects, calls_first: true };
            let names = with_undefined((entry, Lookup::Required), undefined);
            Ok(self.look_up_in(state, library, &[library], &names, besides)?[0])
        })
    }

    fn look_up_in(
        &self,
        state: &mut State,
        library: LibraryId,
        order: &[LibraryId],
        names: &[(&str, Lookup)],
        besides: LookupExtras,
    ) -> Result<Vec<Option<u64>>> {
        let wanted: Vec<_> = names
            .iter()
            .map(|(name, _)| NameQuery { name: name.as_bytes(), ..NameQuery::default() })
            .collect();
        let found = self.resolve(state, library, order, &wanted)?;
        let is_variable = |found: &Option<DefinitionId>| {
            found.is_some_and(|found| state.entry(found).flags.contains(Flags::THREAD_LOCAL))
        };
        if let Some(((name, _), _)) = names.iter().zip(&found).find(|(_, found)| is_variable(found))
        {
            let problem =
                "it is thread-local: it has an address in each thread, and no other".to_owned();
            return Err(Error::Unsupported { file: (*name).to_owned(), problem });
        }
        let roots = found.iter().flatten().copied().collect();
        let LookupExtras { objects, calls_first } = besides;
        let entry = found[0].filter(|_| calls_first);
        self.link(state, &LinkRoots { roots, objects, missing: missing(names, &found), entry })?;
        // A pass may have removed a found symbol.
        let address = |found| state.address_of(state.entry(found));
        let addresses: Vec<_> = found.into_iter().map(|found| address(found?)).collect();
        let undefined = missing(names, &addresses);
        if undefined.is_empty() { Ok(addresses) } else { Err(Error::Undefined(undefined)) }
    }

    pub(super) fn link_all(&self, library: LibraryId) -> Result<()> {
        self.linking(|state| {
            let objects = state.pending(library, |_| true, Extent::Whole);
            self.link(state, &LinkRoots { objects, ..LinkRoots::default() })
        })
    }

    /// Links the objects that have constructors.
    pub(super) fn link_constructors(&self, library: LibraryId) -> Result<()> {
        self.linking(|state| {
            let objects = state.with_constructors(library, Extent::Whole);
            self.link(state, &LinkRoots { objects, ..LinkRoots::default() })
        })
    }

    /// Links the objects that define the roots, `wanted`'s objects, and everything that these need:
    /// all of it or nothing.
    fn link(&self, state: &mut State, wanted: &LinkRoots) -> Result<()> {
        let mut batch = self.gather(state, wanted)?;
        // A generator's last object may define symbols that members read before define too.
        while batch.members.iter().any(|linking| linking.is_outdated(state)) {
            batch = self.gather(state, wanted)?;
        }
        if let Some(entry) = wanted.entry {
            batch.check_entry(state, entry)?;
        }
        batch.is_program = wanted.entry.is_some();
        let bounds = Bounds::find(&mut batch, self.options.phony_externals.is_some())?;
        if !batch.missing.is_empty() {
            return Err(Error::Undefined(batch.missing));
        }
        if batch.members.is_empty() {
            return Ok(());
        }
        let placement = self.placement(&batch);
        batch.process_data = self.process_data(state, &batch.members)?;
        let copies = Copies::make(self, state, &mut batch.members, placement)?;
        batch.index_members();
        let result = self.link_batch(state, &mut batch, &bounds, placement);
        if result.is_err() {
            copies.undo(state);
        }
        result
    }

    fn placement(&self, batch: &Batch) -> Placement {
        match batch.members.iter().any(|linking| linking.graph.is_narrow()) {
            true => Placement::Low,
            false => self.options.placement,
        }
    }

    /// Turns graphs with resolved symbols into executable memory.
    fn link_batch(
        &self,
        state: &mut State,
        batch: &mut Batch,
        bounds: &Bounds,
        placement: Placement,
    ) -> Result<()> {
        let mut clock = Instant::now();
        self.allocate_batch(state, batch, bounds, placement, Reach::Session)?;
        state.times.allocate += lap(&mut clock);
        if !self.fix_up_batch(state, batch, Reach::Session)? {
            batch.allocations.clear();
            // Memory may not suffice for two copies of the batch.
            for linking in &mut batch.members {
                linking.graph.release_memory();
                linking.tls = None;
            }
            batch.acquired = AcquiredResources::default();
            self.allocate_batch(state, batch, bounds, placement, Reach::Graph)?;
            self.fix_up_batch(state, batch, Reach::Graph)?;
        }
        state.times.fix_up += lap(&mut clock);
        state.times.objects += batch.members.len();
        state.times.bytes +=
            batch.members.iter().map(|linking| linking.graph.memory_size()).sum::<u64>();
        let notes = self.take_notes(batch)?;
        self.finalize_batch(state, batch)?;
        notes.into_iter().for_each(|deliver| deliver());
        state.times.finalize += lap(&mut clock);
        Ok(())
    }

    /// Allocates memory, which fixes every address.
    fn allocate_batch(
        &self,
        state: &State,
        batch: &mut Batch,
        bounds: &Bounds,
        placement: Placement,
        reach: Reach,
    ) -> Result<()> {
        let Batch { members, process_data, .. } = batch;
        let requests = parallel_mut_map(self.options.threads, members, |linking| {
            let externals = self.externals(state, None, process_data, linking);
            linking.graph.reserve_tables(externals, reach);
            linking.graph.set_externals(Externals::default());
            linking.graph.lay_out()
        })?;
        let objects: Vec<ObjectRequest<'_>> = batch
            .members
            .iter()
            .zip(&requests)
            .map(|(linking, segments)| ObjectRequest { name: linking.graph.name(), segments })
            .collect();
        // Objects that must lie together share one allocation.
        let at_most = if bounds.is_empty() { TOGETHER } else { u64::MAX };
        let allocations = together(&objects, at_most).map(|objects| {
            InFlight::allocate(self.memory.as_ref(), AllocationRequest { objects, placement })
        });
        let allocations = crate::wait(try_join_all(allocations))?;
        let mut members = batch.members.iter_mut();
        for (allocation, parts) in allocations {
            batch.allocations.push((parts.len(), allocation));
            members
                .by_ref()
                .zip(parts)
                .for_each(|(linking, part)| linking.graph.place_segments(part));
        }
        bounds.define(batch);
        self.place_thread_locals(batch)
    }

    /// Computes every field of every graph. Returns `false` if memory assumed to be within reach is
    /// not: the caller must repeat fix-up, in other memory.
    fn fix_up_batch(&self, state: &State, batch: &mut Batch, reach: Reach) -> Result<bool> {
        if !self.options.passes.is_empty() {
            return self.fix_up_with_passes(state, batch, reach);
        }
        let mut start = 0;
        while start < batch.members.len() {
            let end = batch.portion(start, self.options.threads);
            // Graphs' external symbols take much memory, so each graph has them for a short time
            // only.
            self.tell_externals(state, batch, start..end)?;
            let fix_up = |linking: &mut LinkingObject| {
                let reaches = linking.graph.is_within(reach);
                if reaches {
                    self.fix_up(linking)?;
                }
                linking.graph.set_externals(Externals::default());
                Ok(reaches)
            };
            let members = &mut batch.members[start..end];
            if parallel_mut_map(self.options.threads, members, fix_up)?.contains(&false) {
                return Ok(false);
            }
            start = end;
        }
        Ok(true)
    }

    fn fix_up_with_passes(&self, state: &State, batch: &mut Batch, reach: Reach) -> Result<bool> {
        let all = 0..batch.members.len();
        self.tell_externals(state, batch, all.clone())?;
        if !batch.members.iter().all(|linking| linking.graph.is_within(reach)) {
            return Ok(false);
        }
        let run = |stage| {
            move |linking: &mut LinkingObject| self.options.passes.run(stage, &mut linking.graph)
        };
        batch.members.iter_mut().try_for_each(run(Stage::PostAllocation))?;
        // A pass may have redefined symbols.
        self.tell_externals(state, batch, all)?;
        parallel_mut(self.options.threads, &mut batch.members, |linking| {
            run(Stage::PreFixup)(linking)?;
            self.fix_up(linking)?;
            run(Stage::PostFixup)(linking)
        })?;
        Ok(true)
    }

    /// Collects the link records that passes take of graphs with final content.
    fn take_notes(&self, batch: &mut Batch) -> Result<Vec<Delivery>> {
        let mut taken = Vec::new();
        for notes in self.options.passes.notes() {
            let mut graphs = batch.members.iter_mut().map(|linking| &mut *linking.graph);
            taken.push(notes(&mut graphs)?);
        }
        Ok(taken)
    }

    fn fix_up(&self, linking: &mut LinkingObject) -> Result<()> {
        let tls = linking.tls.as_ref().map_or_else(|| self.tls_layout(), |tls| tls.layout);
        linking.graph.fix_up(tls)
    }

    /// Sets the external symbols of some of the graphs.
    fn tell_externals(
        &self,
        state: &State,
        batch: &mut Batch,
        members: Range<usize>,
    ) -> Result<()> {
        let referring = &batch.members[members.clone()];
        let externals = parallel(self.options.threads, referring, |linking| {
            Ok(self.externals(state, Some(batch), &batch.process_data, linking))
        })?;
        for (linking, externals) in batch.members[members].iter_mut().zip(externals) {
            linking.graph.set_externals(externals);
        }
        Ok(())
    }

    /// Assigns places to thread-local variables: at a fixed offset from the thread pointer if any
    /// code of the batch requires that.
    fn place_thread_locals(&self, batch: &mut Batch) -> Result<()> {
        let fixed = batch.members.iter().any(|linking| linking.graph.uses_thread_pointer());
        let of_members = batch.members.iter_mut();
        let mut with_template: Vec<_> = of_members
            .filter_map(|linking| Some((linking.graph.tls_template()?, linking)))
            .collect();
        if with_template.is_empty() {
            return Ok(());
        }
        let Some(runtime) = &self.runtime else {
            for ((_, template), linking) in with_template {
                let from_thread_pointer = Some(0);
                let layout = TlsLayout { module: 1, from_thread_pointer, ..TlsLayout::default() };
                linking.tls = Some(Tls { layout, template, number: None, is_static: false });
            }
            return Ok(());
        };
        let reserve = runtime.static_tls().filter(|_| fixed);
        let wanted = with_template.iter().map(|((template, address), _)| NewThreadLocals {
            template: *address,
            content_size: template.content_size,
            size: template.size,
            alignment: template.alignment,
            reserve,
        });
        let name_of = |index: usize| match with_template.get(index) {
            Some((_, linking)) => linking.graph.name().to_string(),
            None => "an object".to_owned(),
        };
        let places = runtime.create_thread_locals(wanted.collect(), name_of)?;
        batch.acquired.thread_locals(runtime, places.iter().map(|place| place.number));
        for (((_, template), linking), place) in with_template.iter_mut().zip(places) {
            let layout = TlsLayout {
                module: place.module,
                module_offset: place.module_offset,
                from_thread_pointer: place.from_thread_pointer,
                ..self.tls_layout()
            };
            let (template, number) = (*template, Some(place.number));
            linking.tls = Some(Tls { layout, template, number, is_static: reserve.is_some() });
        }
        Ok(())
    }

    fn tls_layout(&self) -> TlsLayout {
        self.runtime.as_ref().map(|runtime| runtime.tls_layout()).unwrap_or_default()
    }
}

/// The size limit in bytes for an allocation in which objects share pages: a fraction of a call's
/// reach.
const TOGETHER: u64 = 32 << 20;

/// Divides objects into allocations. An allocation of several objects has at most `at_most` bytes.
fn together<'a>(
    objects: &'a [ObjectRequest<'a>],
    at_most: u64,
) -> impl Iterator<Item = &'a [ObjectRequest<'a>]> {
    let needs = |object: &ObjectRequest<'_>| -> u64 {
        object.segments.iter().map(|s| s.alignment + s.content_size + s.zero_fill_size).sum()
    };
    let mut size = 0;
    objects.chunk_by(move |one, next| {
        size += needs(one);
        let fits = size + needs(next) <= at_most;
        if !fits {
            size = 0;
        }
        fits
    })
}

/// The minimum number of external symbols of graphs that are fixed up together, for each thread.
const TARGETS_AT_ONCE: usize = 1024;

impl Batch {
    /// Refuses an entry of a program that is data.
    fn check_entry(&self, state: &State, entry: DefinitionId) -> Result<()> {
        let Some((object, symbol)) = state.owner_of(entry) else { return Ok(()) };
        let Some(LinkingObject { graph, .. }) = self.member(object) else { return Ok(()) };
        let symbol = graph.symbol(symbol);
        let Definition::Block(block, _) = symbol.definition else { return Ok(()) };
        let section = graph.section(graph.block(block).section);
        if section.protection == Protection::ReadExecute {
            return Ok(());
        }
        let (name, section) = (for_message(symbol.name), for_message(section.name));
        let problem =
            format!("the entry {name} is data in section {section}, expected a function to call");
        Err(Error::Unsupported { file: graph.name().to_string(), problem })
    }

    /// Returns the end of the members from `start` that are fixed up together: enough to occupy all
    /// threads, and few at a time.
    fn portion(&self, start: usize, threads: usize) -> usize {
        let all: usize = self.members.iter().map(|linking| linking.targets.len()).sum();
        let (mut end, mut targets) = (start, 0);
        while end < self.members.len()
            && (end - start < 2 * threads || targets < (threads * TARGETS_AT_ONCE).max(all / 64))
        {
            targets += self.members[end].targets.len();
            end += 1;
        }
        end
    }
}

impl State {
    /// Returns the objects of a library that are not linked and whose source `is_asked` accepts.
    fn pending(
        &self,
        library: LibraryId,
        is_asked: impl Fn(&Source) -> bool,
        extent: Extent,
    ) -> Vec<NeededObject> {
        let is_asked = |phase: &Phase| match phase {
            Phase::Pending(source) => is_asked(source),
            Phase::Linked(_) | Phase::Removed => false,
        };
        let objects = self.objects_of(library).filter(|(_, object)| is_asked(&object.phase));
        objects.map(|(id, _)| (id, extent)).collect()
    }

    /// Returns the objects that have constructors.
    fn with_constructors(&self, library: LibraryId, extent: Extent) -> Vec<NeededObject> {
        let constructs = |source: &Source| match source {
            Source::Elf(object) => {
                let view = object.view();
                Initializers::are_in(view.sections.iter().map(|section| view.section_name(section)))
            }
            Source::Made(made) => {
                Initializers::are_in(made.make().sections().map(|section| section.name.to_vec()))
            }
        };
        self.pending(library, constructs, extent)
    }
}

/// Returns an entry, followed by optional names.
fn with_undefined<'a>(entry: (&'a str, Lookup), names: &[&'a str]) -> Vec<(&'a str, Lookup)> {
    let names = names.iter().map(|name| (*name, Lookup::Optional));
    [entry].into_iter().chain(names).collect()
}

/// Returns the required names without a result.
fn missing<T>(names: &[(&str, Lookup)], found: &[Option<T>]) -> Vec<Undefined> {
    let missing = |((_, lookup), found): &(&(&str, Lookup), &Option<T>)| {
        *lookup == Lookup::Required && found.is_none()
    };
    let names = names.iter().zip(found).filter(missing).map(|((name, _), _)| name);
    names.map(|name| Undefined { symbol: (*name).to_owned(), file: String::new() }).collect()
}
