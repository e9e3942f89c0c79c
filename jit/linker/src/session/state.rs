//! The state of a session: its libraries and their objects.

use std::sync::Arc;

use hashbrown::HashMap;
use longshore_orc_rt::ProcessTls;

use super::entry::{DefinitionId, Entry, EntryId, Flags, LibraryId, ObjectId, Owner};
use super::generator::Generator;
use super::object_state::{Linked, ObjectState, Phase, Source};
use super::runtime::Runtime;
use super::symbols::{LinkedAddresses, LinkedSymbols};
use super::table::{MAX_OBJECTS, SymbolTable};
use super::times::LinkTimes;
use crate::graph::{LinkGraph, SymbolId};
use crate::{Error, Result};

#[derive(Default)]
pub(super) struct State {
    libraries: Vec<LibraryState>,
    objects: Vec<ObjectState>,
    /// Indices of removed objects, for reuse.
    vacant: Vec<ObjectId>,
    /// Number of objects that have been added.
    added: u64,
    /// Objects that generators, and the linker itself, have added during the current link.
    pub(super) generated: Vec<ObjectId>,
    pub(super) times: LinkTimes,
}

pub(super) struct LibraryState {
    pub(super) name: Arc<str>,
    pub(super) table: SymbolTable,
    pub(super) link_order: Vec<LibraryId>,
    /// Library from which objects' references are resolved first, before this one.
    pub(super) refers_through: Option<LibraryId>,
    /// Other names, with their targets.
    pub(super) aliases: HashMap<Box<[u8]>, Arc<[u8]>>,
    /// Names in objects' references, with their replacements.
    pub(super) wrapped: HashMap<Box<[u8]>, Arc<[u8]>>,
    pub(super) generators: Vec<Arc<dyn Generator>>,
    /// Exit scope in the process, created on demand.
    pub(super) scope: Option<u64>,
    /// Owner of the sections of each COMDAT group.
    pub(super) groups: HashMap<EntryId, ObjectId>,
    /// Whether linked objects have left names or groups to other objects.
    has_given_up: bool,
    /// Places of the variables of the process's libraries.
    pub(super) thread_locals: HashMap<EntryId, ProcessTls>,
    /// Sizes in bytes of the common symbols in use.
    pub(super) commons: HashMap<EntryId, u64>,
    /// Largest alignment in bytes that any object requires of each.
    pub(super) common_alignments: HashMap<EntryId, u64>,
    /// Number of objects whose constructors have run.
    pub(super) constructed: u64,
}

impl State {
    pub(super) fn add_library(&mut self, name: &str) -> LibraryId {
        self.libraries.push(LibraryState {
            name: name.into(),
            table: SymbolTable::default(),
            link_order: Vec::new(),
            refers_through: None,
            aliases: HashMap::new(),
            wrapped: HashMap::new(),
            generators: Vec::new(),
            scope: None,
            groups: HashMap::new(),
            has_given_up: false,
            thread_locals: HashMap::new(),
            commons: HashMap::new(),
            common_alignments: HashMap::new(),
            constructed: 0,
        });
        LibraryId::new(self.libraries.len() - 1)
    }

    /// Returns the replacement name for a reference of a library's objects, if the name is wrapped.
    pub(super) fn wrapped(&self, library: LibraryId, name: &[u8]) -> Option<Arc<[u8]>> {
        self.wrappers(library).find_map(|wrapped| wrapped.get(name).cloned())
    }

    /// Returns whether any reference of a library's objects gets another name.
    pub(super) fn wraps(&self, library: LibraryId) -> bool {
        self.wrappers(library).any(|wrapped| !wrapped.is_empty())
    }

    fn wrappers(&self, id: LibraryId) -> impl Iterator<Item = &HashMap<Box<[u8]>, Arc<[u8]>>> {
        let library = self.library(id);
        let outer = library.refers_through.map(|outer| &self.library(outer).wrapped);
        std::iter::once(&library.wrapped).chain(outer)
    }

    /// Returns the exit scopes of all libraries that have one.
    pub(super) fn exit_scopes(&self) -> impl Iterator<Item = u64> {
        self.libraries.iter().filter_map(|library| library.scope)
    }

    /// Returns the exit scope of a library, created on demand.
    pub(super) fn exit_scope(&mut self, runtime: &Runtime, library: LibraryId) -> Result<u64> {
        let scope = &mut self.library_mut(library).scope;
        match scope {
            Some(scope) => Ok(*scope),
            None => Ok(*scope.insert(runtime.create_exit_scope()?)),
        }
    }

    pub(super) fn library(&self, id: LibraryId) -> &LibraryState {
        &self.libraries[id.index()]
    }

    pub(super) fn library_mut(&mut self, id: LibraryId) -> &mut LibraryState {
        &mut self.libraries[id.index()]
    }

    pub(super) fn object(&self, id: ObjectId) -> &ObjectState {
        &self.objects[id.0 as usize]
    }

    pub(super) fn object_mut(&mut self, id: ObjectId) -> &mut ObjectState {
        &mut self.objects[id.0 as usize]
    }

    /// Returns all objects of a library that have not been removed.
    pub(super) fn objects_of(
        &self,
        library: LibraryId,
    ) -> impl Iterator<Item = (ObjectId, &ObjectState)> {
        let objects =
            self.objects.iter().enumerate().map(|(index, object)| (ObjectId(index as u32), object));
        objects.filter(move |(_, object)| {
            object.library == library && !matches!(object.phase, Phase::Removed)
        })
    }

    /// Returns all objects that are linked, in no order.
    pub(super) fn linked(&self) -> impl Iterator<Item = (ObjectId, &Linked)> {
        self.objects.iter().enumerate().filter_map(|(index, object)| match &object.phase {
            Phase::Linked(linked) => Some((ObjectId(index as u32), &**linked)),
            _ => None,
        })
    }

    /// Returns all linked objects, in no order, and marks them as removed.
    pub(super) fn take_linked(&mut self) -> Vec<Linked> {
        let phases = self
            .objects
            .iter_mut()
            .map(|object| std::mem::replace(&mut object.phase, Phase::Removed));
        phases
            .filter_map(|phase| match phase {
                Phase::Linked(linked) => Some(*linked),
                _ => None,
            })
            .collect()
    }

    /// Returns whether there is no room for another object.
    pub(super) fn is_full(&self) -> bool {
        self.vacant.is_empty() && self.objects.len() >= MAX_OBJECTS
    }

    /// Creates an object without definitions.
    pub(super) fn new_object(
        &mut self,
        name: Arc<str>,
        library: LibraryId,
        source: Source,
    ) -> ObjectId {
        let mut object = ObjectState::new(name, library, self.added, Phase::Pending(source));
        self.added += 1;
        match self.vacant.pop() {
            Some(id) => {
                object.generation = self.object(id).generation + 1;
                *self.object_mut(id) = object;
                id
            }
            None => {
                self.objects.push(object);
                ObjectId(self.objects.len() as u32 - 1)
            }
        }
    }

    /// Removes an object: takes its symbols and groups from its library, and frees its index.
    /// Returns the object's state.
    pub(super) fn forget_object(&mut self, id: ObjectId) -> ObjectState {
        let object = self.object(id);
        let (name, library, serial) = (Arc::clone(&object.name), object.library, object.serial);
        let mut none = ObjectState::new(name, library, serial, Phase::Removed);
        none.generation = object.generation;
        self.disown_all(id);
        let object = std::mem::replace(self.object_mut(id), none);
        self.vacant.push(id);
        object
    }

    /// Takes an object's symbols and groups from its library.
    pub(super) fn disown_all(&mut self, id: ObjectId) {
        let object = self.object_mut(id);
        let library = object.library.index();
        let (entries, groups) =
            (std::mem::take(&mut object.entries), std::mem::take(&mut object.groups));
        let library = &mut self.libraries[library];
        for entry in entries.iter().chain(groups.iter().copied()) {
            if library.table.symbol_of(id, entry).is_some() {
                library.table.disown(entry, &self.objects);
            }
        }
        for group in groups {
            if library.groups.get(&group) == Some(&id) {
                library.groups.remove(&group);
            }
        }
    }

    /// Returns the entry of a name in a library's table.
    #[inline]
    pub(super) fn entry_named(&self, library: LibraryId, name: &[u8]) -> Option<EntryId> {
        self.library(library).table.find(name, &self.objects)
    }

    /// Returns the entry of a name in a library's table, created without an owner on demand. `None`
    /// if there is no room for another one.
    pub(super) fn intern(&mut self, library: LibraryId, name: &[u8]) -> Option<EntryId> {
        self.libraries[library.index()].table.intern(name, &self.objects)
    }

    /// Returns the same as [`Self::intern`], for the name of a symbol in an object that is not
    /// linked.
    #[inline]
    pub(super) fn intern_of_object(
        &mut self,
        library: LibraryId,
        name: &[u8],
        symbol: (ObjectId, u32),
    ) -> Option<EntryId> {
        self.libraries[library.index()].table.intern_of_object(name, symbol, &self.objects)
    }

    /// Reserves room in a library's table.
    pub(super) fn reserve(&mut self, library: LibraryId, symbols: usize) {
        self.libraries[library.index()].table.reserve(symbols, &self.objects);
    }

    #[inline]
    pub(super) fn entry(&self, (library, entry): DefinitionId) -> Entry {
        self.library(library).table.entry(entry)
    }

    #[inline]
    pub(super) fn set_entry(&mut self, (library, id): DefinitionId, entry: Entry) {
        self.libraries[library.index()].table.set(id, entry, &self.objects);
    }

    /// Returns the name of an entry.
    pub(super) fn name_of(&self, (library, entry): DefinitionId) -> &[u8] {
        self.library(library).table.name(entry, &self.objects)
    }

    /// Returns the address of a symbol, unless its object is not linked.
    pub(super) fn address_of(&self, entry: Entry) -> Option<u64> {
        match entry.owner {
            Owner::Nobody => None,
            Owner::Absolute => Some(entry.address),
            Owner::Object(object) => match &self.object(object).phase {
                Phase::Linked(linked) => Some(linked.symbols.address(entry.symbol)),
                _ => None,
            },
        }
    }

    /// Gives the symbols of an object their addresses from its graph. Later look-ups do not find
    /// the symbols that the graph no longer defines.
    pub(super) fn publish(&mut self, id: ObjectId, graph: LinkGraph) -> LinkedSymbols {
        let Self { libraries, objects, .. } = self;
        let object = &objects[id.0 as usize];
        let LibraryState { table, has_given_up, .. } = &mut libraries[object.library.index()];
        let start = graph.address_range().start;
        let mut addresses = LinkedAddresses::new(start, object.entries.len());
        let exported = graph.exported_addresses();
        for entry in object.entries.iter() {
            let Some(symbol) = table.symbol_of(id, entry) else { continue };
            match exported(SymbolId::from_index(symbol)) {
                Some(address) => addresses.push(address),
                None => {
                    table.disown(entry, objects);
                    *has_given_up = true;
                }
            }
        }
        drop(exported);
        for group in &object.groups {
            if table.entry(*group).owner == Owner::Nobody {
                table.disown(*group, objects);
            }
        }
        // Both the graph and the names may be large, so the graph goes first.
        drop(graph);
        let mut naming = addresses.name(object.name_bytes);
        for entry in object.entries.iter() {
            if let Some(symbol) = table.symbol_of(id, entry) {
                table.set_symbol(entry, naming.push(object.symbol_name(symbol)));
            }
        }
        naming.finish()
    }

    /// Gives up an object's COMDAT groups of which the graph has no section any more.
    pub(super) fn give_up_groups(&mut self, id: ObjectId, graph: &LinkGraph) {
        let library = self.object(id).library;
        for signature in graph.dead_groups() {
            let Some(entry) = self.entry_named(library, signature) else { continue };
            let library = self.library_mut(library);
            if library.groups.get(&entry) == Some(&id) {
                library.groups.remove(&entry);
                library.has_given_up = true;
            }
        }
    }

    /// Gives other objects the names and groups that linked objects have given up.
    pub(super) fn reclaim_given_up(&mut self) {
        let gave_up = |(index, library): (usize, &mut LibraryState)| {
            std::mem::take(&mut library.has_given_up).then(|| LibraryId::new(index))
        };
        let libraries = self.libraries.iter_mut().enumerate().filter_map(gave_up).collect();
        self.reclaim(libraries);
    }

    pub(super) fn define_absolute(
        &mut self,
        library: LibraryId,
        name: &str,
        address: u64,
    ) -> Result<()> {
        let first = self.owner_name(library, name.as_bytes());
        let file = self.library(library).name.to_string();
        if name.contains('\0') {
            let problem = format!("{name:?} has a zero in it, expected a name without one");
            return Err(Error::Malformed { file, problem });
        }
        let Some(id) = self.intern(library, name.as_bytes()) else {
            return Err(too_many_names(file));
        };
        let entry = self.entry((library, id));
        if entry.owner != Owner::Nobody && !entry.flags.contains(Flags::GENERATED) {
            let second = "an absolute definition".to_owned();
            return Err(Error::Duplicate { symbol: name.to_owned(), first, second });
        }
        self.set_entry((library, id), Entry::absolute(address, Flags::default()));
        Ok(())
    }

    /// Returns the name of a symbol's owner, for messages.
    pub(super) fn owner_name(&self, library: LibraryId, name: &[u8]) -> String {
        match self.entry_named(library, name).map(|id| self.entry((library, id)).owner) {
            Some(Owner::Object(object)) => self.object(object).name.to_string(),
            Some(Owner::Absolute) => "an absolute definition".to_owned(),
            Some(Owner::Nobody) | None => "nothing".to_owned(),
        }
    }
}

/// Returns the error for a name that a library has no room for.
pub(super) fn too_many_names(file: String) -> Error {
    let problem = "its library has 2^32 symbols already, use another one".to_owned();
    Error::Unsupported { file, problem }
}
