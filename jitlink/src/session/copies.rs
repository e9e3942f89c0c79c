//! Copies of data of the process for code that holds its address in 32 bits.
//!
//! Code that is not position-independent refers to `stdout` of the C library as if it were near. A system linker reserves
//! room in the program for such data, and the dynamic linker makes the library use that. Here the library has long begun to use
//! its own, so the code gets a copy, made when it is linked: right for what does not change afterwards, as `stdout`, and
//! documented as a limit for the rest. Code compiled with `-fPIC` or `-fPIE` needs no copies.

use std::sync::Arc;

use super::Shared;
use super::link::Linking;
use super::resolve::Found;
use super::state::{ObjectId, Source, State};
use super::table::{Entry, Owner};
use crate::Result;
use crate::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope, SymbolId};
use crate::memory::{Lifetime, Placement, Protection};
use crate::runtime::process_data::data_at;

/// Symbols that have become copies, and what they were.
#[derive(Default)]
pub(super) struct Copies {
    objects: Vec<ObjectId>,
    replaced: Vec<(Found, Entry)>,
}

impl Copies {
    /// Makes the copies that a batch needs into more members of it, one for each library that the data is known by.
    pub(super) fn make(
        shared: &Shared,
        state: &mut State,
        members: &mut Vec<Linking>,
        placement: Placement,
    ) -> Result<Self> {
        let mut copies = Self::default();
        if placement != Placement::Low || !shared.options.executes {
            return Ok(copies);
        }
        let mut wanted: Vec<Found> = members.iter().flat_map(Linking::nearby_targets).collect();
        wanted.retain(|found| state.entry(*found).owner == Owner::Absolute);
        wanted.sort_unstable();
        wanted.dedup();
        for symbols in wanted.chunk_by(|one, other| one.0 == other.0) {
            let mut graph = LinkGraph::new("copies of data", shared.architecture);
            let copied = copy_into(&mut graph, state, symbols);
            if !copied.is_empty() {
                graph.scan()?;
                members.push(copies.add(state, graph, &copied));
            }
        }
        Ok(copies)
    }

    /// An object of a library that defines these symbols from now on.
    fn add(
        &mut self,
        state: &mut State,
        graph: LinkGraph,
        symbols: &[(Found, SymbolId)],
    ) -> Linking {
        let library = symbols[0].0.0;
        let architecture = graph.architecture();
        let nothing = move || LinkGraph::new("copies of data", architecture);
        let object =
            state.new_object(graph.name().clone(), library, Source::Made(Arc::new(nothing)));
        for (found, symbol) in symbols {
            let table = &mut state.library_mut(library).table;
            let entry = table.entry(found.1);
            self.replaced.push((*found, entry));
            table.set(found.1, Entry::of_object(object, symbol.index(), entry.flags));
            state.object_mut(object).entries.push(found.1);
        }
        self.objects.push(object);
        Linking::new(object, library, graph)
    }

    /// The link has failed: the symbols are what they were.
    pub(super) fn undo(self, state: &mut State) {
        for object in self.objects {
            state.forget_object(object);
        }
        for ((library, id), entry) in self.replaced {
            state.library_mut(library).table.set(id, entry);
        }
    }
}

/// Adds a block for each symbol that is data of the process.
fn copy_into(graph: &mut LinkGraph, state: &State, symbols: &[Found]) -> Vec<(Found, SymbolId)> {
    let section = graph.add_section(".data", Protection::ReadWrite, Lifetime::Standard);
    let copy = |found: &Found| {
        // SAFETY: the address is of a symbol that a library of this process defines.
        let content = unsafe { data_at(state.entry(*found).address) }?;
        let size = content.len() as u64;
        let block = graph.add_block(section, Content::Bytes(content), ALIGNMENT);
        let name = String::from_utf8_lossy(state.library(found.0).table.name(found.1));
        let symbol = graph.add_symbol(NewSymbol {
            name: &name,
            definition: Definition::Block(block, 0),
            size,
            linkage: Linkage::Strong,
            scope: Scope::Default,
            callable: false,
        });
        Some((*found, symbol))
    };
    symbols.iter().filter_map(copy).collect()
}

/// Nothing in a library says how its data is aligned; this is enough for every type of the C library.
const ALIGNMENT: u64 = 64;
