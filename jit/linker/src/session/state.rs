//! What a session knows: its libraries and their objects.

use std::num::NonZeroU32;
use std::sync::Arc;

use hashbrown::HashMap;
use longshore_orc_rt::ProcessTls;

use super::generator::Generator;
use super::initializers::Initializers;
use super::resolve::Found;
use super::runtime::Runtime;
use super::symbols::{EntryList, LinkedAddresses, LinkedSymbols};
use super::table::{Entry, EntryId, Flags, MAX_OBJECTS, Owner, SymbolTable};
use super::times::LinkTimes;
use crate::debug::Registration;
use crate::elf::ElfObject;
use crate::graph::{Definition, LinkGraph, Symbol, SymbolId, TlsLayout};
use crate::memory::FinalizedAllocation;
use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LibraryId(NonZeroU32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectId(pub(super) u32);

impl LibraryId {
    fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("a session has less than 2^32 libraries"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Default)]
pub(super) struct State {
    libraries: Vec<LibraryState>,
    objects: Vec<ObjectState>,
    /// Places of objects that were removed.
    vacant: Vec<ObjectId>,
    /// How many objects have been added.
    added: u64,
    /// The objects that generators, and the linker itself, have given since the link under way began.
    pub(super) generated: Vec<ObjectId>,
    pub(super) times: LinkTimes,
}

pub(super) struct LibraryState {
    pub(super) name: Arc<str>,
    pub(super) table: SymbolTable,
    pub(super) link_order: Vec<LibraryId>,
    /// What objects refer to is looked for from this library first, and only then here.
    pub(super) refers_through: Option<LibraryId>,
    /// Other names, and what they stand for.
    pub(super) aliases: HashMap<Box<[u8]>, Arc<[u8]>>,
    /// Names that objects refer to, and the names that they get instead.
    pub(super) wrapped: HashMap<Box<[u8]>, Arc<[u8]>>,
    pub(super) generators: Vec<Arc<dyn Generator>>,
    /// The exit scope in the process, once something needs it.
    pub(super) scope: Option<u64>,
    /// Who has the sections of each COMDAT group.
    pub(super) groups: HashMap<EntryId, ObjectId>,
    /// Whether linked objects have left names or groups to others.
    has_given_up: bool,
    /// Where variables of the process's libraries are.
    pub(super) thread_locals: HashMap<EntryId, ProcessTls>,
    /// The sizes of the common symbols that are used.
    pub(super) commons: HashMap<EntryId, u64>,
    /// The largest alignment that any object wants for them.
    pub(super) common_alignments: HashMap<EntryId, u64>,
    /// How many objects have had their constructors run.
    pub(super) constructed: u64,
}

pub(super) struct ObjectState {
    pub(super) name: Arc<str>,
    pub(super) library: LibraryId,
    /// How many objects had this place before.
    pub(super) generation: u32,
    /// How many objects were added before.
    pub(super) serial: u64,
    /// The symbols that it defines.
    pub(super) entries: EntryList,
    /// Bytes of the names of all that it has ever defined.
    pub(super) name_bytes: usize,
    /// Its definitions that are not used, since there is another of that name.
    pub(super) lost: Vec<Lost>,
    /// The sections that describe those of its COMDAT groups that another object has, in order.
    pub(super) lost_groups: Vec<u32>,
    /// The signatures of the COMDAT groups whose sections it keeps.
    pub(super) groups: Vec<EntryId>,
    /// How many objects of the library were constructed before this one; nothing if its constructors have not run.
    pub(super) constructed: Option<u64>,
    /// Whether its destructors have run, so that only who initializes it again has its constructors run.
    pub(super) ended: bool,
    pub(super) phase: Phase,
}

/// A definition of an object that another one is taken for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    pub(super) entry: EntryId,
    pub(super) symbol: u32,
    pub(super) flags: Flags,
    pub(super) size: u64,
}

pub(super) enum Phase {
    Pending(Source),
    Linked(Box<Linked>),
    Removed,
}

/// From what a graph is made.
#[derive(Clone)]
pub(super) enum Source {
    Elf(ElfObject),
    Made(MadeGraph),
}

/// A function that makes a graph.
#[derive(Clone)]
pub(super) struct MadeGraph {
    make: Arc<dyn Fn() -> LinkGraph + Send + Sync>,
    /// The names of the symbols that it defines, each with its place in the graph, ascending.
    names: Arc<[(u32, Box<[u8]>)]>,
}

impl MadeGraph {
    /// `graph` is one that it has made.
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

/// What is left of an object when it is linked.
pub(super) struct Linked {
    pub(super) allocation: FinalizedAllocation,
    pub(super) symbols: LinkedSymbols,
    /// Start and size of each part of its memory.
    pub(super) ranges: Vec<(u64, u64)>,
    pub(super) uses: Vec<ObjectId>,
    pub(super) initializers: Initializers,
    pub(super) tls: Option<Tls>,
    /// The library of the process that stands for its code and for that of others, if one does. It is closed with the first of them.
    pub(super) code_library: Option<u64>,
    /// The address that its code has as its `__dso_handle`.
    pub(super) dso_handle: Option<u64>,
    pub(super) debug: Option<Registration>,
    /// For copies of data: the symbols that they define, and what these were.
    pub(super) replaced: Vec<(EntryId, Entry)>,
}

/// The thread-local variables of an object.
pub(super) struct Tls {
    pub(super) layout: TlsLayout,
    /// The address of the template, by which its symbols are known.
    pub(super) template: u64,
    /// Its storage in the process; none if nothing is executed.
    pub(super) number: Option<u64>,
    /// Whether that is at a fixed offset from the thread pointer.
    pub(super) is_static: bool,
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

    /// The name that a reference of a library's objects gets instead of its own, if that is wrapped.
    pub(super) fn wrapped(&self, library: LibraryId, name: &[u8]) -> Option<Arc<[u8]>> {
        self.wrappers(library).find_map(|wrapped| wrapped.get(name).cloned())
    }

    /// Whether any reference of a library's objects gets another name.
    pub(super) fn wraps(&self, library: LibraryId) -> bool {
        self.wrappers(library).any(|wrapped| !wrapped.is_empty())
    }

    fn wrappers(&self, id: LibraryId) -> impl Iterator<Item = &HashMap<Box<[u8]>, Arc<[u8]>>> {
        let library = self.library(id);
        let outer = library.refers_through.map(|outer| &self.library(outer).wrapped);
        std::iter::once(&library.wrapped).chain(outer)
    }

    /// The exit scopes of all libraries that have one.
    pub(super) fn exit_scopes(&self) -> impl Iterator<Item = u64> {
        self.libraries.iter().filter_map(|library| library.scope)
    }

    /// The exit scope of a library, made if it has none.
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

    /// All objects of a library that have not been removed.
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

    /// All objects that are linked, in no order.
    pub(super) fn linked(&self) -> impl Iterator<Item = (ObjectId, &Linked)> {
        self.objects.iter().enumerate().filter_map(|(index, object)| match &object.phase {
            Phase::Linked(linked) => Some((ObjectId(index as u32), &**linked)),
            _ => None,
        })
    }

    /// Everything that is linked, in no order. The objects are gone then.
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

    /// Whether there is no place for another object.
    pub(super) fn is_full(&self) -> bool {
        self.vacant.is_empty() && self.objects.len() >= MAX_OBJECTS
    }

    /// A place for an object that defines nothing yet.
    pub(super) fn new_object(
        &mut self,
        name: Arc<str>,
        library: LibraryId,
        source: Source,
    ) -> ObjectId {
        let mut object = ObjectState {
            name,
            library,
            generation: 0,
            serial: self.added,
            entries: EntryList::default(),
            name_bytes: 0,
            lost: Vec::new(),
            lost_groups: Vec::new(),
            groups: Vec::new(),
            constructed: None,
            ended: false,
            phase: Phase::Pending(source),
        };
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

    /// Takes an object's symbols and groups from its library, and its place. What it was is returned.
    pub(super) fn forget_object(&mut self, id: ObjectId) -> ObjectState {
        let (generation, serial, name, library) = {
            let object = self.object(id);
            (object.generation, object.serial, Arc::clone(&object.name), object.library)
        };
        let none = ObjectState {
            name,
            library,
            generation,
            serial,
            entries: EntryList::default(),
            name_bytes: 0,
            lost: Vec::new(),
            lost_groups: Vec::new(),
            groups: Vec::new(),
            constructed: None,
            ended: false,
            phase: Phase::Removed,
        };
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

    /// The entry of a name in a library's table.
    #[inline]
    pub(super) fn entry_named(&self, library: LibraryId, name: &[u8]) -> Option<EntryId> {
        self.library(library).table.find(name, &self.objects)
    }

    /// The entry of a name in a library's table, made without an owner if there is none. `None` if there is no room for another
    /// one.
    pub(super) fn intern(&mut self, library: LibraryId, name: &[u8]) -> Option<EntryId> {
        self.libraries[library.index()].table.intern(name, &self.objects)
    }

    /// The same for the name that a symbol has in an object that is not linked.
    #[inline]
    pub(super) fn intern_of_object(
        &mut self,
        library: LibraryId,
        name: &[u8],
        symbol: (ObjectId, u32),
    ) -> Option<EntryId> {
        self.libraries[library.index()].table.intern_of_object(name, symbol, &self.objects)
    }

    /// Makes room in a library's table.
    pub(super) fn reserve(&mut self, library: LibraryId, symbols: usize) {
        self.libraries[library.index()].table.reserve(symbols, &self.objects);
    }

    #[inline]
    pub(super) fn entry(&self, (library, entry): Found) -> Entry {
        self.library(library).table.entry(entry)
    }

    #[inline]
    pub(super) fn set_entry(&mut self, (library, id): Found, entry: Entry) {
        self.libraries[library.index()].table.set(id, entry, &self.objects);
    }

    /// The name of an entry.
    pub(super) fn name_of(&self, (library, entry): Found) -> &[u8] {
        self.library(library).table.name(entry, &self.objects)
    }

    /// The address of a symbol, unless its object is not linked.
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

    /// Gives the symbols of an object their addresses, which its graph knows. Those that the graph does not define any more are not
    /// there for later look-ups.
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
        // A graph may be large, and so may the names be.
        drop(graph);
        let mut naming = addresses.name(object.name_bytes);
        for entry in object.entries.iter() {
            if let Some(symbol) = table.symbol_of(id, entry) {
                table.set_symbol(entry, naming.push(object.symbol_name(symbol)));
            }
        }
        naming.finish()
    }

    /// Leaves those COMDAT groups of an object to others of which its graph has nothing any more.
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

    /// Lets others have the names and groups that linked objects do not have in the end.
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

    /// Who defines a name, for messages.
    pub(super) fn owner_name(&self, library: LibraryId, name: &[u8]) -> String {
        match self.entry_named(library, name).map(|id| self.entry((library, id)).owner) {
            Some(Owner::Object(object)) => self.object(object).name.to_string(),
            Some(Owner::Absolute) => "an absolute definition".to_owned(),
            Some(Owner::Nobody) | None => "nothing".to_owned(),
        }
    }
}

/// The error for a name that a library has no room for.
pub(super) fn too_many_names(file: String) -> Error {
    let problem = "its library has 2^32 symbols already, use another one".to_owned();
    Error::Unsupported { file, problem }
}

impl ObjectState {
    /// The name of a symbol that it defines: by its place in the object's symbols, or in [`Linked::symbols`] once it is linked.
    #[inline]
    pub(super) fn symbol_name(&self, symbol: u32) -> &[u8] {
        match &self.phase {
            Phase::Pending(Source::Elf(object)) => object.symbol_name(symbol),
            Phase::Pending(Source::Made(made)) => made.symbol_name(symbol),
            Phase::Linked(linked) => linked.symbols.name(symbol),
            Phase::Removed => b"",
        }
    }

    /// Whether that is the name of such a symbol.
    #[inline]
    pub(super) fn is_symbol_named(&self, symbol: u32, name: &[u8]) -> bool {
        match &self.phase {
            Phase::Pending(Source::Elf(object)) => object.is_symbol_named(symbol, name),
            _ => self.symbol_name(symbol) == name,
        }
    }
}
