//! Copies of the process's data for code that holds its address in 32 bits.
//!
//! Code that is not position-independent refers to `stdout` of the C library by a near address. A
//! system linker reserves room in the program for such data, and the dynamic linker makes the
//! libraries use that room.
//! [`with_rebound_process_data`](super::SessionBuilder::with_rebound_process_data) does the
//! same here.
//!
//! Otherwise the library keeps using its own data, and the code gets a copy of the value at link
//! time. Such a copy is right for data that does not change afterwards, such as `stdout`.
//! [`with_copied_process_data`](super::SessionBuilder::with_copied_process_data) selects that
//! data; all other data is out of the code's reach. Code compiled with `-fPIC` needs no copies.
//!
//! Copies go with the last object that uses them.

use hashbrown::{HashMap, HashSet};

use super::Shared;
use super::batch::LinkingObject;
use super::entry::{DefinitionId, Entry, ObjectId, Owner};
use super::object_state::{GraphSource, Linked, Phase, Source};
use super::runtime::Runtime;
use super::state::State;
use crate::Result;
use crate::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope, SymbolId};
use crate::memory::{ActionPair, Lifetime, Placement, Protection};

/// Symbols that have become copies, with their previous entries.
#[derive(Default)]
pub(super) struct Copies {
    objects: Vec<ObjectId>,
    replaced: Vec<(DefinitionId, Entry)>,
}

impl Copies {
    /// Makes the copies that a batch needs, as further members: one for each library through which
    /// the data is known.
    pub(super) fn make(
        shared: &Shared,
        state: &mut State,
        members: &mut Vec<LinkingObject>,
        placement: Placement,
    ) -> Result<Self> {
        let mut copies = Self::default();
        let Some(runtime) = shared.runtime.as_ref().filter(|_| placement == Placement::Low) else {
            return Ok(copies);
        };
        let mut wanted: Vec<DefinitionId> =
            members.iter().flat_map(LinkingObject::nearby_targets).collect();
        wanted.retain(|found| {
            let name = || String::from_utf8_lossy(state.name_of(*found));
            state.entry(*found).owner == Owner::Absolute && (shared.options.copies)(&name())
        });
        wanted.sort_unstable_by_key(|found| (found.0, state.entry(*found).address, found.1));
        wanted.dedup();
        let data = data_of(runtime, state, &wanted)?;
        for symbols in wanted.chunk_by(|one, other| one.0 == other.0) {
            let mut graph = LinkGraph::new("copies of data", shared.architecture);
            let copied = copy_into(&mut graph, state, symbols, &data);
            if copied.is_empty() {
                continue;
            }
            if let Err(error) = graph.scan() {
                copies.undo(state);
                return Err(error);
            }
            members.push(copies.add(state, graph, &copied));
        }
        Ok(copies)
    }

    /// Adds an object to a library, which defines these symbols from now on.
    fn add(
        &mut self,
        state: &mut State,
        graph: LinkGraph,
        symbols: &[(DefinitionId, SymbolId)],
    ) -> LinkingObject {
        let library = symbols[0].0.0;
        let architecture = graph.architecture();
        let nothing = move || LinkGraph::new("copies of data", architecture);
        let source = Source::Made(GraphSource::new(&graph, nothing));
        let object = state.new_object(graph.name().clone(), library, source);
        let mut linking = LinkingObject::new(object, library, graph);
        for (found, symbol) in symbols {
            let entry = state.entry(*found);
            self.replaced.push((*found, entry));
            linking.replaced.push((found.1, entry));
            let copy = Entry::for_object(object, symbol.index(), entry.flags);
            state.set_entry(*found, copy);
            state.object_mut(object).entries.push(found.1);
        }
        self.objects.push(object);
        linking
    }

    /// Restores the symbols' previous entries after a failed link.
    pub(super) fn undo(self, state: &mut State) {
        for object in self.objects {
            state.forget_object(object);
        }
        for ((library, id), entry) in self.replaced {
            state.set_entry((library, id), entry);
        }
    }
}

impl Shared {
    /// Returns the actions that make the process's libraries use the copies, one for each original.
    pub(super) fn rebinding<'a>(
        &'a self,
        runtime: &'a Runtime,
        state: &'a State,
        linking: &'a LinkingObject,
    ) -> impl Iterator<Item = ActionPair> {
        let originals = linking.replaced.chunk_by(|one, other| one.1.address == other.1.address);
        originals.filter(|_| self.options.rebinds_process_data).map(move |names| {
            let (id, original) = &names[0];
            let name = String::from_utf8_lossy(state.name_of((linking.library, *id)));
            let copy = SymbolId::from_index(state.entry((linking.library, *id)).symbol);
            let address = linking.graph.exported_address(copy).expect("the graph has the copy");
            let size = linking.graph.symbol(copy).size;
            runtime.rebind_actions(&name, original.address, address, size)
        })
    }
}

impl State {
    /// Removes the unused copies, and restores their symbols' previous entries.
    pub(super) fn forget_unused_copies(&mut self) -> Vec<Linked> {
        let copies = self.linked().filter(|(_, linked)| !linked.replaced.is_empty());
        let mut unused: HashSet<ObjectId> = copies.map(|(id, _)| id).collect();
        for (_, linked) in self.linked() {
            if unused.is_empty() {
                break;
            }
            linked.uses.iter().for_each(|used| _ = unused.remove(used));
        }
        unused.into_iter().filter_map(|id| self.forget_copies(id)).collect()
    }

    fn forget_copies(&mut self, id: ObjectId) -> Option<Linked> {
        let object = self.forget_object(id);
        let Phase::Linked(linked) = object.phase else { return None };
        for (id, entry) in &linked.replaced {
            let found = (object.library, *id);
            if self.entry(found).owner == Owner::Nobody {
                self.set_entry(found, *entry);
            }
        }
        Some(*linked)
    }
}

/// Returns the contents of the process's data behind these symbols, by address.
fn data_of(
    runtime: &Runtime,
    state: &State,
    symbols: &[DefinitionId],
) -> Result<HashMap<u64, Vec<u8>>> {
    let mut addresses: Vec<u64> = symbols.iter().map(|found| state.entry(*found).address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        return Ok(HashMap::new());
    }
    let data = runtime.data_at(addresses.clone())?;
    let known = addresses.into_iter().zip(data);
    Ok(known.filter_map(|(address, data)| Some((address, data?.into_vec()))).collect())
}

/// Adds a block for each datum of the process, and a symbol for each of its names. The symbols of
/// one datum are adjacent.
fn copy_into(
    graph: &mut LinkGraph,
    state: &State,
    symbols: &[DefinitionId],
    data: &HashMap<u64, Vec<u8>>,
) -> Vec<(DefinitionId, SymbolId)> {
    let section = graph.add_section(".data", Protection::ReadWrite, Lifetime::Standard);
    let address = |found: &DefinitionId| state.entry(*found).address;
    let mut copied = Vec::with_capacity(symbols.len());
    for names in symbols.chunk_by(|one, other| address(one) == address(other)) {
        let Some(content) = data.get(&address(&names[0])).cloned() else { continue };
        let size = content.len() as u64;
        let block = graph.add_block(section, Content::Bytes(content), ALIGNMENT);
        for found in names {
            let symbol = graph.add_symbol(NewSymbol {
                name: &String::from_utf8_lossy(state.name_of(*found)),
                definition: Definition::Block(block, 0),
                size,
                linkage: Linkage::Strong,
                scope: Scope::Default,
                callable: false,
            });
            copied.push((*found, symbol));
        }
    }
    copied
}

/// The alignment of copies in bytes. A library does not record the alignment of its data; 64 bytes
/// suffice for every type of the C library.
const ALIGNMENT: u64 = 64;
