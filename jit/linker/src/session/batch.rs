//! A batch: the objects of one link, from the reading of their graphs to the end of the link.

use hashbrown::{HashMap, HashSet};

use super::entry::{DefinitionId, Entry, EntryId, LibraryId, ObjectId};
use super::object_state::Tls;
use super::runtime::AcquiredResources;
use super::state::State;
use super::targets::Targets;
use crate::Undefined;
use crate::graph::{LinkGraph, Pruning, SymbolId};
use crate::memory::InFlight;

/// An object during its link.
pub(super) struct LinkingObject {
    pub(super) object: ObjectId,
    pub(super) library: LibraryId,
    /// Boxed: `LinkGraph` is large, and [`Batch::members`] reallocates.
    pub(super) graph: Box<LinkGraph>,
    pub(super) pruning: Option<Pruning>,
    /// Number of the batch's names of sections with bounds already looked up in the graph.
    pub(super) bounded: usize,
    /// Number of its definitions already defined elsewhere at read time.
    pub(super) lost: usize,
    /// Symbols outside of the graph, in order.
    pub(super) targets: Targets,
    /// Objects with sections whose bounds the graph refers to.
    pub(super) bounds_of: Vec<ObjectId>,
    pub(super) tls: Option<Tls>,
    /// Library of the process that represents its code, if any.
    pub(super) code_library: Option<u64>,
    /// Symbols defined by copies of data with their previous entries, in the order of the
    /// originals' addresses.
    pub(super) replaced: Vec<(EntryId, Entry)>,
}

/// The objects of a link.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) members: Vec<LinkingObject>,
    pub(super) missing: Vec<Undefined>,
    /// Names of sections whose bounds live blocks refer to, while members are pruned.
    pub(super) bounded: Vec<Vec<u8>>,
    /// The same names, as a set.
    pub(super) bounded_known: HashSet<Vec<u8>>,
    /// Number of these names, and of the members already searched for all of them.
    pub(super) bounded_kept: (usize, usize),
    /// Memory of the members in their order, each allocation with the number of its members.
    pub(super) allocations: Vec<(usize, InFlight)>,
    /// Whether the batch has the entry of a program.
    pub(super) is_program: bool,
    /// Addresses of the process's data that code refers to by a near address or distance.
    pub(super) process_data: HashSet<u64>,
    /// Resources of the process acquired for the members.
    pub(super) acquired: AcquiredResources,
    index: HashMap<ObjectId, usize>,
}

impl LinkingObject {
    /// Creates a member from a graph that refers to no other graph.
    pub(super) fn new(object: ObjectId, library: LibraryId, graph: LinkGraph) -> Self {
        Self {
            object,
            library,
            graph: Box::new(graph),
            pruning: None,
            bounded: 0,
            lost: 0,
            targets: Targets::default(),
            bounds_of: Vec::new(),
            tls: None,
            code_library: None,
            replaced: Vec::new(),
        }
    }

    /// Returns whether other objects have taken over definitions since the graph was made.
    pub(super) fn is_outdated(&self, state: &State) -> bool {
        state.object(self.object).lost.len() != self.lost
    }

    /// Returns the definitions to which the graph refers by a 32-bit address or distance.
    pub(super) fn nearby_targets(&self) -> impl Iterator<Item = DefinitionId> {
        let targets = self.targets.iter();
        targets
            .filter(|(symbol, _)| self.graph.wants_nearby(*symbol))
            .filter_map(|(_, found)| found)
    }

    /// Returns the objects that this one uses.
    pub(super) fn uses(&self, state: &State) -> Vec<ObjectId> {
        let owner = |(_, found): (SymbolId, Option<DefinitionId>)| Some(state.owner_of(found?)?.0);
        let used = self.targets.iter().filter_map(owner).chain(self.bounds_of.iter().copied());
        let used: HashSet<ObjectId> = used.filter(|object| *object != self.object).collect();
        let mut uses: Vec<ObjectId> = used.into_iter().collect();
        uses.sort_unstable();
        uses
    }
}

impl Batch {
    /// Indexes the members by their objects.
    pub(super) fn index_members(&mut self) {
        for (index, linking) in self.members.iter().enumerate().skip(self.index.len()) {
            self.index.insert(linking.object, index);
        }
    }

    /// Rebuilds the index, once members have changed their places.
    pub(super) fn reindex_members(&mut self) {
        self.index.clear();
        self.index_members();
    }

    /// Returns an object's index among the members.
    pub(super) fn index_of(&self, object: ObjectId) -> Option<usize> {
        self.index.get(&object).copied()
    }

    pub(super) fn member(&self, object: ObjectId) -> Option<&LinkingObject> {
        self.index_of(object).map(|index| &self.members[index])
    }
}
