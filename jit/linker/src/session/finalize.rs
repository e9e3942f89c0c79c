//! Finalization: the protections of linked memory, the registration of frames, and the addresses in
//! the libraries' tables.

use futures_util::future::join_all;
use serde_bytes::ByteBuf;

use super::Shared;
use super::batch::{Batch, LinkingObject};
use super::initializers::Initializers;
use super::object_state::{Linked, Phase, Source};
use super::runtime::log_failure;
use super::state::State;
use crate::debug::{LinkedFunction, LinkedObject, Registration};
use crate::graph::{Definition, LinkGraph};
use crate::memory::{ActionPair, FinalizedAllocation, InFlight, Lifetime, Protection};
use crate::{Error, Result};

impl Shared {
    /// Makes the members of a batch linked objects.
    pub(super) fn finalize_batch(&self, state: &mut State, batch: &mut Batch) -> Result<()> {
        let initializers: Vec<Initializers> =
            batch.members.iter_mut().map(|linking| Initializers::new(&mut linking.graph)).collect();
        self.initialise_static_tls(batch)?;
        self.add_dso_handles(state, batch)?;
        self.list_program(batch)?;
        let done = self.finalize_memory(state, batch)?;
        batch.acquired.keep();
        for ((linking, allocation), initializers) in
            batch.members.drain(..).zip(done).zip(initializers)
        {
            if self.options.removes_blocks() {
                state.give_up_groups(linking.object, &linking.graph);
            }
            let linked = Linked {
                allocation,
                debug: self.announce(state, &linking),
                ranges: linking.graph.segment_ranges(),
                uses: linking.uses(state),
                initializers,
                dso_handle: self.runtime.as_ref().and_then(|_| linking.graph.dso_handle()),
                symbols: state.publish(linking.object, *linking.graph),
                tls: linking.tls,
                code_library: linking.code_library,
                replaced: linking.replaced,
            };
            state.object_mut(linking.object).phase = Phase::Linked(Box::new(linked));
        }
        state.reclaim_given_up();
        Ok(())
    }

    /// Finalizes the memory of all members, or of none. Indirect functions are resolved with the
    /// last member, when every function that their resolvers may call is there.
    fn finalize_memory(
        &self,
        state: &State,
        batch: &mut Batch,
    ) -> Result<Vec<FinalizedAllocation>> {
        let mut actions: Vec<Vec<ActionPair>> =
            batch.members.iter().map(|linking| self.actions(state, linking)).collect();
        if let Some(last) = actions.last_mut() {
            last.extend(
                batch.members.iter().flat_map(|linking| self.resolve_actions(&linking.graph)),
            );
        }
        for LinkingObject { object, graph, .. } in &mut batch.members {
            if !graph.release_memory() {
                let file = state.object(*object).name.to_string();
                let problem = "a pass has taken away its graph".to_owned();
                return Err(Error::Unsupported { file, problem });
            }
        }
        let mut actions = actions.into_iter();
        let mut finalize = |(members, allocation): (usize, InFlight)| {
            allocation.finalize(actions.by_ref().take(members).collect())
        };
        let last = batch.allocations.pop();
        let others: Vec<_> = batch.allocations.drain(..).map(&mut finalize).collect();
        let last = last.map(finalize);
        let mut results = crate::wait(join_all(others));
        if results.iter().all(Result::is_ok) {
            results.extend(last.map(crate::wait));
        }
        let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        let done: Vec<FinalizedAllocation> = done.into_iter().flatten().flatten().collect();
        let Some(Err(error)) = failed.into_iter().next() else { return Ok(done) };
        let undone = crate::wait(self.memory.deallocate(done));
        log_failure("giving back the memory of a failed link", undone);
        Err(error)
    }

    /// Gives thread-local storage at a fixed offset its content, which is final now.
    fn initialise_static_tls(&self, batch: &mut Batch) -> Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let contents = batch.members.iter_mut().filter_map(|linking| {
            let number = linking.tls.as_ref().filter(|tls| tls.is_static)?.number?;
            let (template, _) = linking.graph.tls_template()?;
            let content = linking.graph.working_memory(template.segment);
            Some((number, ByteBuf::from(&content[..template.content_size as usize])))
        });
        let contents: Vec<(u64, ByteBuf)> = contents.collect();
        if contents.is_empty() { Ok(()) } else { runtime.initialise_thread_locals(contents) }
    }

    /// Registers the objects' own handles as handles of their libraries.
    fn add_dso_handles(&self, state: &mut State, batch: &mut Batch) -> Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let mut handles = Vec::new();
        for linking in &batch.members {
            if let Some(handle) = linking.graph.dso_handle() {
                handles.push((state.exit_scope(runtime, linking.library)?, handle));
            }
        }
        if handles.is_empty() {
            return Ok(());
        }
        batch.acquired.dso_handles(runtime, handles.iter().map(|(_, handle)| *handle));
        runtime.add_dso_handles(handles)
    }

    /// Returns the finalize and deallocate actions of a graph.
    fn actions(&self, state: &State, linking: &LinkingObject) -> Vec<ActionPair> {
        let Some(runtime) = &self.runtime else { return Vec::new() };
        let frames = linking.graph.frame_sections().into_iter();
        let frames = frames.map(|(address, size)| runtime.frame_actions(address, size));
        frames.chain(self.rebinding(runtime, state, linking)).collect()
    }

    /// Returns the calls of the resolvers of indirect functions.
    fn resolve_actions(&self, graph: &LinkGraph) -> Vec<ActionPair> {
        let Some(runtime) = &self.runtime else { return Vec::new() };
        let indirect = graph.indirect_functions().into_iter();
        indirect.map(|(slot, function)| runtime.resolve_action(slot, function)).collect()
    }

    fn announce(&self, state: &State, linking: &LinkingObject) -> Option<Registration> {
        let debug = self.options.debug.as_ref().filter(|_| self.runtime.is_some())?;
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
                // SAFETY: the function lies in a block of executable memory of this process, which
                // was just finalized and is not given back during the link of this object.
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
