//! The definitions of a graph's external symbols: addresses in other objects and in the process.

use hashbrown::HashSet;
use longshore_orc_rt::process_data::size_of_data;

use super::Shared;
use super::batch::{Batch, LinkingObject};
use super::entry::{DefinitionId, Entry, Flags, ObjectId, Owner};
use super::object_state::Phase;
use super::state::State;
use crate::Result;
use crate::graph::{
    External, ExternalKind, Externals, Linkage, SymbolId, ThreadLocalPlace, TlsLayout,
};

impl Shared {
    /// Returns the definitions of a graph's external symbols. Without a batch, symbols of objects
    /// in the same link have no addresses yet.
    pub(super) fn externals(
        &self,
        state: &State,
        batch: Option<&Batch>,
        process_data: &HashSet<u64>,
        linking: &LinkingObject,
    ) -> Externals {
        let mut externals = Externals {
            symbols: Vec::with_capacity(linking.targets.len()),
            thread_locals: Vec::new(),
        };
        let linked = Linked { state, batch, process_data };
        for (symbol, found) in linking.targets.iter() {
            let (address, kind) = match found {
                Some(found) => linked.external(linking, symbol, found, &mut externals),
                None => self.missing(linking, symbol),
            };
            externals.symbols.push(External { symbol, address, kind });
        }
        externals
    }

    /// Returns address and kind of an undefined symbol.
    fn missing(&self, linking: &LinkingObject, symbol: SymbolId) -> (u64, ExternalKind) {
        match self.options.phony_externals {
            Some(phony) if linking.graph.symbol(symbol).linkage == Linkage::Strong => {
                let callable = !linking.graph.wants_nearby(symbol);
                (phony, ExternalKind::Process { callable })
            }
            _ => (0, ExternalKind::Missing),
        }
    }

    /// Returns the addresses of the process's data among the addresses that code refers to as
    /// near. One call asks the process for all of them.
    pub(super) fn process_data(
        &self,
        state: &State,
        members: &[LinkingObject],
    ) -> Result<HashSet<u64>> {
        let of_process = |found: DefinitionId| {
            let Entry { owner, flags, address, .. } = state.entry(found);
            let is_process = owner == Owner::Absolute
                && flags.contains(Flags::GENERATED)
                && !flags.contains(Flags::THREAD_LOCAL);
            is_process.then_some(address)
        };
        let nearby = members.iter().flat_map(LinkingObject::nearby_targets).filter_map(of_process);
        let addresses: Vec<u64> = HashSet::<u64>::from_iter(nearby).into_iter().collect();
        let Some(runtime) = self.runtime.as_ref().filter(|_| !addresses.is_empty()) else {
            return Ok(addresses.into_iter().filter(|a| size_of_data(*a).is_some()).collect());
        };
        let sizes = runtime.data_sizes(addresses.clone())?;
        let data = addresses.into_iter().zip(sizes).filter(|(_, size)| size.is_some());
        Ok(data.map(|(address, _)| address).collect())
    }
}

/// The objects already linked, and the current batch.
#[derive(Clone, Copy)]
struct Linked<'a> {
    state: &'a State,
    batch: Option<&'a Batch>,
    process_data: &'a HashSet<u64>,
}

impl Linked<'_> {
    fn external(
        self,
        linking: &LinkingObject,
        symbol: SymbolId,
        found: DefinitionId,
        externals: &mut Externals,
    ) -> (u64, ExternalKind) {
        let entry = self.state.entry(found);
        if entry.flags.contains(Flags::THREAD_LOCAL) {
            let (offset, place) = self.thread_local(found, entry);
            externals.thread_locals.push((symbol, place));
            return (offset, ExternalKind::ThreadLocal);
        }
        if matches!(entry.owner, Owner::Object(_)) {
            return (self.address(entry), ExternalKind::Linked);
        }
        // A stub can replace a function of the process, but neither data nor a given address.
        let is_process = entry.flags.contains(Flags::GENERATED);
        let nearby = linking.graph.wants_nearby(symbol);
        let callable = !nearby || is_process && !self.process_data.contains(&entry.address);
        (entry.address, ExternalKind::Process { callable })
    }

    fn address(self, entry: Entry) -> u64 {
        let in_batch = match entry.owner {
            Owner::Object(object) => self.batch.and_then(|batch| batch.member(object)),
            _ => None,
        };
        let address = match in_batch {
            Some(member) => member.graph.exported_address(SymbolId::from_index(entry.symbol)),
            None => self.state.address_of(entry),
        };
        address.unwrap_or(0)
    }

    /// Returns the offset in its module, and the place, of a thread-local variable of another
    /// object or of the process.
    fn thread_local(self, (library, id): DefinitionId, entry: Entry) -> (u64, ThreadLocalPlace) {
        if entry.owner == Owner::Absolute
            && let Some(variable) = self.state.library(library).thread_locals.get(&id)
        {
            let from_thread_pointer = variable.offset_from_thread_pointer;
            let place = ThreadLocalPlace { module: variable.module, from_thread_pointer };
            return (variable.offset, place);
        }
        let (layout, template) = match entry.owner {
            Owner::Object(owner) => self.tls_of(owner).unwrap_or_default(),
            _ => <(TlsLayout, u64)>::default(),
        };
        let offset = self.address(entry).wrapping_sub(template);
        let from_thread_pointer =
            layout.from_thread_pointer.map(|start| start.wrapping_add(offset as i64));
        let place = ThreadLocalPlace { module: layout.module, from_thread_pointer };
        (layout.module_offset.wrapping_add(offset), place)
    }

    /// Returns the location of an object's thread-local variables, and the address of their
    /// template.
    fn tls_of(self, object: ObjectId) -> Option<(TlsLayout, u64)> {
        let tls = match self.batch.and_then(|batch| batch.member(object)) {
            Some(member) => &member.tls,
            None => match &self.state.object(object).phase {
                Phase::Linked(linked) => &linked.tls,
                _ => return None,
            },
        };
        tls.as_ref().map(|tls| (tls.layout, tls.template))
    }
}
