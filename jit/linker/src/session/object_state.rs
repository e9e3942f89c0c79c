//! The state of one object of a session: its source until it is linked, and the parts kept
//! afterwards.

use std::sync::Arc;

use super::entry::{Entry, EntryId, Flags, LibraryId, ObjectId};
use super::initializers::Initializers;
use super::symbols::{EntryList, LinkedSymbols};
use crate::debug::Registration;
use crate::elf::ElfObject;
use crate::graph::{Definition, LinkGraph, Symbol, TlsLayout};
use crate::memory::FinalizedAllocation;

/// An object of a library, or a vacant place for one.
pub(super) struct ObjectState {
    pub(super) name: Arc<str>,
    pub(super) library: LibraryId,
    /// Number of previous objects with this index.
    pub(super) generation: u32,
    /// Number of objects added to the session before.
    pub(super) serial: u64,
    /// Symbols that it defines.
    pub(super) entries: EntryList,
    /// Total size in bytes of all names that it has ever defined.
    pub(super) name_bytes: usize,
    /// Unused definitions, whose names have other definitions.
    pub(super) lost: Vec<ReplacedDefinition>,
    /// Sections that describe COMDAT groups owned by another object, in order.
    pub(super) lost_groups: Vec<u32>,
    /// Signatures of the COMDAT groups with sections that it keeps.
    pub(super) groups: Vec<EntryId>,
    /// Number of objects of the library that were constructed before this one; `None` until its
    /// constructors have run.
    pub(super) constructed: Option<u64>,
    /// Whether its destructors have run. If so, only an explicit initialization runs its
    /// constructors again.
    pub(super) ended: bool,
    pub(super) phase: Phase,
}

/// A definition of an object that another definition replaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplacedDefinition {
    pub(super) entry: EntryId,
    pub(super) symbol: u32,
    pub(super) flags: Flags,
    pub(super) size: u64,
}

/// The phases of an object's life.
pub(super) enum Phase {
    Pending(Source),
    Linked(Box<Linked>),
    Removed,
}

/// The origin of an object's graph.
#[derive(Clone)]
pub(super) enum Source {
    Elf(ElfObject),
    Made(GraphSource),
}

/// A function that makes a graph.
#[derive(Clone)]
pub(super) struct GraphSource {
    make: Arc<dyn Fn() -> LinkGraph + Send + Sync>,
    /// Names of the symbols that it defines, each with its index in the graph, ascending.
    names: Arc<[(u32, Box<[u8]>)]>,
}

/// The parts of an object that outlast its link.
pub(super) struct Linked {
    pub(super) allocation: FinalizedAllocation,
    pub(super) symbols: LinkedSymbols,
    /// Start and size in bytes of each part of the object's memory.
    pub(super) ranges: Vec<(u64, u64)>,
    pub(super) uses: Vec<ObjectId>,
    pub(super) initializers: Initializers,
    pub(super) tls: Option<Tls>,
    /// Library of the process that represents its code and that of other objects, if any. It is
    /// closed with the first of them.
    pub(super) code_library: Option<u64>,
    /// Address of its own `__dso_handle`.
    pub(super) dso_handle: Option<u64>,
    pub(super) debug: Option<Registration>,
    /// Symbols defined by copies of data, with their previous entries.
    pub(super) replaced: Vec<(EntryId, Entry)>,
}

/// The thread-local variables of an object.
pub(super) struct Tls {
    pub(super) layout: TlsLayout,
    /// Address of the template, on which the addresses of the variables' symbols are based.
    pub(super) template: u64,
    /// Number of the variables' storage in the process; `None` if nothing is executed.
    pub(super) number: Option<u64>,
    /// Whether the storage is at a fixed offset from the thread pointer.
    pub(super) is_static: bool,
}

impl ObjectState {
    /// Creates an object without definitions.
    pub(super) fn new(name: Arc<str>, library: LibraryId, serial: u64, phase: Phase) -> Self {
        Self {
            name,
            library,
            generation: 0,
            serial,
            entries: EntryList::default(),
            name_bytes: 0,
            lost: Vec::new(),
            lost_groups: Vec::new(),
            groups: Vec::new(),
            constructed: None,
            ended: false,
            phase,
        }
    }

    /// Returns the name of a defined symbol, by its index in the object or, once linked, by its
    /// place in [`Linked::symbols`].
    #[inline]
    pub(super) fn symbol_name(&self, symbol: u32) -> &[u8] {
        match &self.phase {
            Phase::Pending(Source::Elf(object)) => object.symbol_name(symbol),
            Phase::Pending(Source::Made(made)) => made.symbol_name(symbol),
            Phase::Linked(linked) => linked.symbols.name(symbol),
            Phase::Removed => b"",
        }
    }

    /// Returns whether a defined symbol has this name.
    #[inline]
    pub(super) fn is_symbol_named(&self, symbol: u32, name: &[u8]) -> bool {
        match &self.phase {
            Phase::Pending(Source::Elf(object)) => object.is_symbol_named(symbol, name),
            _ => self.symbol_name(symbol) == name,
        }
    }
}

impl GraphSource {
    /// Creates the source from `make` and a graph that it has made.
    pub(super) fn new(
        graph: &LinkGraph,
        make: impl Fn() -> LinkGraph + Send + Sync + 'static,
    ) -> Self {
        let is_defined = |symbol: &Symbol<'_>| symbol.definition != Definition::External;
        let names = graph.symbols().filter(is_defined);
        let names = names.map(|symbol| (symbol.id.index(), symbol.name.into())).collect();
        Self { make: Arc::new(make), names }
    }

    pub(super) fn make(&self) -> LinkGraph {
        (self.make)()
    }

    fn symbol_name(&self, symbol: u32) -> &[u8] {
        let index = self.names.binary_search_by_key(&symbol, |(symbol, _)| *symbol);
        index.map_or(b"", |index| &self.names[index].1)
    }
}
