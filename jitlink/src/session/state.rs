//! What a session knows: its libraries and their objects.

use std::sync::Arc;

use hashbrown::HashMap;

use super::generator::Generator;
use super::initializers::Initializers;
use super::table::{Entry, EntryId, Flags, MAX_OBJECTS, Owner, SymbolTable};
use super::times::LinkTimes;
use crate::debug::Registration;
use crate::elf::ElfObject;
use crate::graph::{LinkGraph, TlsLayout};
use crate::memory::FinalizedAllocation;
use crate::runtime::{ExitScope, ProcessTls, StaticTlsBlock, TlsModule};
use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LibraryId(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectId(pub(super) u32);

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
    /// Other names, and what they stand for.
    pub(super) aliases: HashMap<Box<[u8]>, Arc<[u8]>>,
    pub(super) generators: Vec<Arc<dyn Generator>>,
    pub(super) scope: Arc<ExitScope>,
    /// Who has the sections of each COMDAT group.
    pub(super) groups: HashMap<EntryId, ObjectId>,
    /// Where variables of the process's libraries are.
    pub(super) thread_locals: HashMap<EntryId, ProcessTls>,
    /// The sizes of the common symbols that are used.
    pub(super) commons: HashMap<EntryId, u64>,
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
    pub(super) entries: Vec<EntryId>,
    /// Its definitions that are not used, since there is another of that name.
    pub(super) lost: Vec<Lost>,
    /// The sections that describe those of its COMDAT groups that another object has, in order.
    pub(super) lost_groups: Vec<u32>,
    /// The signatures of the COMDAT groups whose sections it keeps.
    pub(super) groups: Vec<EntryId>,
    /// How many objects of the library were constructed before this one; nothing if its constructors have not run.
    pub(super) constructed: Option<u64>,
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
    Made(Arc<dyn Fn() -> LinkGraph + Send + Sync>),
}

/// What is left of an object when it is linked.
pub(super) struct Linked {
    pub(super) allocation: FinalizedAllocation,
    /// Where its memory is.
    pub(super) range: std::ops::Range<u64>,
    pub(super) uses: Vec<ObjectId>,
    pub(super) initializers: Initializers,
    pub(super) tls: Option<Tls>,
    pub(super) dso_handle: Option<DsoHandle>,
    pub(super) debug: Option<Registration>,
    /// For copies of data: the symbols that they define, and what these were.
    pub(super) replaced: Vec<(EntryId, Entry)>,
}

/// The `__dso_handle` of an object. Dropping it takes it from its library's scope.
pub(super) struct DsoHandle {
    scope: Arc<ExitScope>,
    address: u64,
}

impl DsoHandle {
    pub(super) fn new(scope: &Arc<ExitScope>, address: u64) -> Self {
        scope.add_handle(address);
        Self { scope: Arc::clone(scope), address }
    }
}

impl Drop for DsoHandle {
    fn drop(&mut self) {
        self.scope.remove_handle(self.address);
    }
}

/// The thread-local variables of an object.
pub(super) struct Tls {
    pub(super) layout: TlsLayout,
    /// The address of the template, by which its symbols are known.
    pub(super) template: u64,
    pub(super) storage: TlsStorage,
}

pub(super) enum TlsStorage {
    Dynamic(TlsModule),
    Static(StaticTlsBlock),
    /// Nothing is executed.
    None,
}

impl State {
    pub(super) fn add_library(&mut self, name: &str) -> LibraryId {
        self.libraries.push(LibraryState {
            name: name.into(),
            table: SymbolTable::default(),
            link_order: Vec::new(),
            aliases: HashMap::new(),
            generators: Vec::new(),
            scope: Arc::new(ExitScope::new()),
            groups: HashMap::new(),
            thread_locals: HashMap::new(),
            commons: HashMap::new(),
            constructed: 0,
        });
        LibraryId(self.libraries.len() as u32 - 1)
    }

    /// The exit handlers of all libraries.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &ExitScope> {
        self.libraries.iter().map(|library| &*library.scope)
    }

    pub(super) fn library(&self, id: LibraryId) -> &LibraryState {
        &self.libraries[id.0 as usize]
    }

    pub(super) fn library_mut(&mut self, id: LibraryId) -> &mut LibraryState {
        &mut self.libraries[id.0 as usize]
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
            entries: Vec::new(),
            lost: Vec::new(),
            lost_groups: Vec::new(),
            groups: Vec::new(),
            constructed: None,
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
            entries: Vec::new(),
            lost: Vec::new(),
            lost_groups: Vec::new(),
            groups: Vec::new(),
            constructed: None,
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
        let library = object.library;
        let (entries, groups) =
            (std::mem::take(&mut object.entries), std::mem::take(&mut object.groups));
        let library = self.library_mut(library);
        for entry in entries {
            if library.table.entry(entry).owner == Owner::Object(id) {
                library.table.disown(entry);
            }
        }
        for group in groups {
            library.groups.remove(&group);
        }
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
        let table = &mut self.library_mut(library).table;
        let Some(id) = table.intern(name.as_bytes()) else { return Err(too_many_names(file)) };
        let entry = table.entry(id);
        if entry.owner != Owner::Nobody && !entry.flags.contains(Flags::GENERATED) {
            let second = "an absolute definition".to_owned();
            return Err(Error::Duplicate { symbol: name.to_owned(), first, second });
        }
        table.set(id, Entry::absolute(address, Flags::default()));
        Ok(())
    }

    /// Who defines a name, for messages.
    pub(super) fn owner_name(&self, library: LibraryId, name: &[u8]) -> String {
        let table = &self.library(library).table;
        match table.find(name).map(|id| table.entry(id).owner) {
            Some(Owner::Object(object)) => self.object(object).name.to_string(),
            Some(Owner::Absolute) => "an absolute definition".to_owned(),
            Some(Owner::Nobody) | None => "nothing".to_owned(),
        }
    }
}

/// The error for a name that a library has no room for.
pub(super) fn too_many_names(file: String) -> Error {
    let problem = "its library has 4 GiB of names already, use another one".to_owned();
    Error::Unsupported { file, problem }
}

impl Tls {
    /// Start and size of the blocks that threads have.
    pub(super) fn blocks(&self) -> Vec<(u64, u64)> {
        match &self.storage {
            TlsStorage::Dynamic(module) => module.blocks(),
            TlsStorage::Static(_) | TlsStorage::None => Vec::new(),
        }
    }
}
