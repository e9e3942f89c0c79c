//! Objects of a library: adding and removing them.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashSet;
use object::elf;

use super::initializers::Ending;
use super::state::{LibraryId, LibraryState, Linked, ObjectId, ObjectState, Phase, Source, State};
use super::table::{Entry, EntryId, Flags, Owner};
use super::{Library, Shared};
use crate::elf::{ElfObject, Home, LE, View};
use crate::error::for_message;
use crate::graph::{Definition, LinkGraph, Linkage, Scope, Symbol};
use crate::{Architecture, Error, Result};

/// An object of a library (ORC's `ResourceTracker`). Dropping the handle leaves the object where it is.
#[must_use = "without it the object cannot be removed before its session ends"]
pub struct Object {
    pub(super) session: Arc<Shared>,
    pub(super) id: ObjectId,
    /// Tells it from later objects in the same place.
    pub(super) generation: u32,
}

/// What becomes of the users of an object that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// There must be none.
    Unused,
    /// They are removed too, and theirs.
    WithUsers,
}

impl Object {
    /// Its name, as it was added.
    pub fn name(&self) -> String {
        self.session.state.lock().object(self.id).name.to_string()
    }

    /// Takes the object's symbols, memory, frames and destructors away, and nothing else. Destructors and exit handlers that it has
    /// registered are run first, if its constructors have been. None of its code may be running. Blocks until the memory is given
    /// back. An object that went with another one already is no error.
    ///
    /// # Errors
    /// [`Error::InUse`] if others use it and it was to be removed only if not; nothing has changed then. [`Error::Action`] if an
    /// action failed; it is removed all the same.
    pub fn remove(self, removal: Removal) -> Result<()> {
        self.session.remove(&self, removal)
    }
}

impl Shared {
    /// Adds an ELF object and its definitions to a library.
    pub(super) fn add_elf(
        &self,
        state: &mut State,
        library: LibraryId,
        name: &str,
        bytes: Bytes,
    ) -> Result<ObjectId> {
        let object = ElfObject::read(name, bytes)?;
        self.check_room(state, name, object.architecture())?;
        let id = state.new_object(Arc::clone(object.name()), library, Source::Elf(object.clone()));
        state.claim_groups(id, object.view());
        let defined = state.define_symbols(id, object.view());
        state.keep_if(id, defined)
    }

    /// Adds a graph that is made by hand, and its definitions, to a library.
    pub(super) fn add_made(
        &self,
        library: LibraryId,
        make: impl Fn() -> LinkGraph + Send + Sync + 'static,
    ) -> Result<ObjectId> {
        let graph = make();
        let mut state = self.state.lock();
        self.check_room(&state, graph.name(), graph.architecture())?;
        let source = Source::Made(Arc::new(make));
        let id = state.new_object(Arc::clone(graph.name()), library, source);
        let defined = state.define_symbols_of_graph(id, &graph);
        state.keep_if(id, defined)
    }

    /// Whether an object of this architecture can be added.
    fn check_room(&self, state: &State, name: &str, architecture: Architecture) -> Result<()> {
        let problem = if architecture != self.architecture {
            format!("it is for {architecture:?}, the session links for {:?}", self.architecture)
        } else if state.is_full() {
            "the session has as many objects as it can".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Unsupported { file: name.to_owned(), problem })
    }

    fn remove(&self, object: &Object, removal: Removal) -> Result<()> {
        let mut state = self.state.lock();
        let known = state.object(object.id);
        if known.generation != object.generation || matches!(known.phase, Phase::Removed) {
            return Ok(());
        }
        let order = state.with_users(object.id);
        if removal == Removal::Unused && order.len() > 1 {
            let users =
                order[1..].iter().map(|user| state.object(*user).name.to_string()).collect();
            return Err(Error::InUse { object: known.name.to_string(), users });
        }
        // From here on nobody finds them. Users go first.
        let mut leaving = Vec::new();
        for id in order.into_iter().rev() {
            let ending = Ending::of(&state, id);
            let forgotten = state.forget_object(id);
            state.reclaim(forgotten.library);
            if let Phase::Linked(linked) = forgotten.phase {
                leaving.push((ending, *linked));
            }
        }
        leaving.extend(state.forget_unused_copies().into_iter().map(|linked| (None, linked)));
        drop(state);
        // Destructors may look symbols up, so the session is not locked while they run.
        let mut allocations = Vec::new();
        for (ending, linked) in leaving {
            if let Some(ending) = ending {
                ending.run();
            }
            allocations.push(dismantle(linked));
        }
        allocations.reverse();
        pollster::block_on(self.memory.deallocate(allocations))
    }
}

/// Takes everything of a linked object away but its memory.
pub(super) fn dismantle(linked: Linked) -> crate::memory::FinalizedAllocation {
    drop(linked.debug);
    drop(linked.tls);
    drop(linked.dso_handle);
    linked.allocation
}

impl State {
    /// Makes an object the owner of the COMDAT groups that nobody has.
    fn claim_groups(&mut self, id: ObjectId, view: View<'_>) {
        let library = self.object(id).library;
        let (mut claimed, mut lost) = (Vec::new(), Vec::new());
        let library = self.library_mut(library);
        for group in LinkGraph::groups(view) {
            if is_own_copy(group.signature) {
                continue;
            }
            let signature = library.table.intern(group.signature);
            match library.groups.get(&signature) {
                Some(owner) if *owner != id => lost.push(group.section),
                Some(_) => {}
                None => {
                    library.groups.insert(signature, id);
                    claimed.push(signature);
                }
            }
        }
        let object = self.object_mut(id);
        (object.groups, object.lost_groups) = (claimed, lost);
    }

    /// Gives what nobody has any more to objects that gave way to its owner and are not linked yet, in their order.
    fn reclaim(&mut self, library: LibraryId) {
        let gave_way = |(id, object): (ObjectId, &ObjectState)| match &object.phase {
            Phase::Pending(Source::Elf(elf)) if self.can_reclaim(object, elf.view()) => {
                Some((id, elf.clone()))
            }
            _ => None,
        };
        let gave_way: Vec<_> = self.objects_of(library).filter_map(gave_way).collect();
        for (id, object) in gave_way {
            self.disown_all(id);
            self.claim_groups(id, object.view());
            if let Err(error) = self.define_symbols(id, object.view()) {
                log::warn!("after the removal of an object: {error}");
            }
        }
    }

    /// Whether nobody has a symbol or a group that an object has lost.
    fn can_reclaim(&self, object: &ObjectState, view: View<'_>) -> bool {
        let LibraryState { table, groups, .. } = self.library(object.library);
        let is_free = |symbol: &u32| {
            table
                .find(view.symbol_name(*symbol))
                .is_none_or(|id| table.entry(id).owner == Owner::Nobody)
        };
        let has_owner =
            |signature| table.find(signature).is_some_and(|id| groups.contains_key(&id));
        object.lost.iter().any(is_free)
            || !object.lost_groups.is_empty()
                && LinkGraph::groups(view).any(|group| {
                    object.lost_groups.contains(&group.section) && !has_owner(group.signature)
                })
    }

    fn define_symbols(&mut self, id: ObjectId, view: View<'_>) -> Result<()> {
        let lost_sections = LinkGraph::sections_of_groups(view, &self.object(id).lost_groups);
        let library = self.object(id).library;
        let globals = view.first_global.max(1)..view.symbols.len() as u32;
        let is_defined = |symbol: &u32| match view.home(*symbol) {
            Home::Undefined => false,
            Home::Section(section) => lost_sections.binary_search(&section).is_err(),
            Home::Absolute | Home::Common => true,
        };
        let defined: usize = globals.clone().filter(is_defined).count();
        self.library_mut(library).table.reserve(defined);
        let definitions = globals.filter(is_defined).map(|symbol| Defines {
            name: view.symbol_name(symbol),
            entry: Entry::of_object(id, symbol, flags_of(view, symbol)),
            size: view.symbols[symbol as usize].st_size.get(LE),
        });
        self.define_all(id, defined, 4 * view.bytes.len(), definitions)
    }

    fn define_symbols_of_graph(&mut self, id: ObjectId, graph: &LinkGraph) -> Result<()> {
        let is_defined = |symbol: &Symbol<'_>| {
            symbol.scope != Scope::Local && symbol.definition != Definition::External
        };
        let definitions = graph.symbols().filter(is_defined).map(|symbol| {
            let flags = Flags::default()
                .with(Flags::WEAK, symbol.linkage == Linkage::Weak)
                .with(Flags::HIDDEN, symbol.scope == Scope::Hidden)
                .with(Flags::CALLABLE, symbol.callable);
            let entry = Entry::of_object(id, symbol.id.index(), flags);
            Defines { name: symbol.name, entry, size: symbol.size }
        });
        self.define_all(id, 0, usize::MAX, definitions)
    }

    fn define_all<'a>(
        &mut self,
        id: ObjectId,
        count: usize,
        size_limit: usize,
        definitions: impl Iterator<Item = Defines<'a>>,
    ) -> Result<()> {
        let library = self.object(id).library;
        let mut adding = Adding { entries: Vec::with_capacity(count), ..Adding::default() };
        let mut names = 0;
        for Defines { name, entry: fresh, size } in
            definitions.filter(|definition| !is_own_copy(definition.name))
        {
            // Names may overlap in a file, so that their sum can be far more than the file.
            names += name.len();
            if names > MAX_NAMES.max(size_limit) {
                adding.failure = Some(Failure::Names(names));
                break;
            }
            let entry_id = self.library_mut(library).table.intern(name);
            let known = self.library(library).table.entry(entry_id);
            match self.choose(&known, &fresh, size) {
                Choice::First => adding.lost.push(fresh.symbol),
                Choice::Conflict => {
                    adding.failure = Some(Failure::Conflict(entry_id));
                    break;
                }
                Choice::Second => {
                    if let Owner::Object(owner) = known.owner {
                        adding.displaced.push((owner, entry_id, known));
                    }
                    self.library_mut(library).table.set(entry_id, fresh);
                    adding.entries.push(entry_id);
                }
            }
        }
        self.settle(id, adding)
    }

    /// An object that was added, unless that has failed: then everything is as before.
    fn keep_if(&mut self, id: ObjectId, added: Result<()>) -> Result<ObjectId> {
        match added {
            Ok(()) => Ok(id),
            Err(error) => {
                self.forget_object(id);
                Err(error)
            }
        }
    }

    /// Which of two definitions of a name counts; `size` is the second's.
    fn choose(&self, first: &Entry, second: &Entry, size: u64) -> Choice {
        let replaceable = match first.owner {
            Owner::Nobody => return Choice::Second,
            _ if first.flags.contains(Flags::GENERATED) => return Choice::Second,
            Owner::Absolute => false,
            Owner::Object(owner) => {
                first.flags.contains(Flags::WEAK)
                    && matches!(self.object(owner).phase, Phase::Pending(_))
            }
        };
        let both_common =
            first.flags.contains(Flags::COMMON) && second.flags.contains(Flags::COMMON);
        if both_common && replaceable && self.size_of(first) < size {
            return Choice::Second;
        }
        match (second.flags.contains(Flags::WEAK), replaceable) {
            (true, _) => Choice::First,
            (false, true) => Choice::Second,
            (false, false) => Choice::Conflict,
        }
    }

    /// The size of a symbol of an object that is not linked yet.
    fn size_of(&self, entry: &Entry) -> u64 {
        let Owner::Object(owner) = entry.owner else { return 0 };
        match &self.object(owner).phase {
            Phase::Pending(Source::Elf(object)) => {
                object.view().symbols[entry.symbol as usize].st_size.get(LE)
            }
            _ => 0,
        }
    }

    /// Completes what [`Self::define_symbols`] has begun, or undoes it.
    fn settle(&mut self, id: ObjectId, adding: Adding) -> Result<()> {
        let library = self.object(id).library;
        let object = self.object_mut(id);
        (object.entries, object.lost) = (adding.entries, adding.lost);
        let Some(failure) = adding.failure else {
            for (owner, entry, was) in adding.displaced {
                let owner = self.object_mut(owner);
                owner.entries.retain(|own| *own != entry);
                owner.lost.push(was.symbol);
            }
            return Ok(());
        };
        for (_, entry, was) in adding.displaced {
            self.library_mut(library).table.set(entry, was);
        }
        let file = self.object(id).name.to_string();
        let conflict = match failure {
            Failure::Conflict(conflict) => conflict,
            Failure::Names(bytes) => {
                let problem = format!(
                    "the names of its symbols overlap, and have more than {bytes} bytes together"
                );
                return Err(Error::Malformed { file, problem });
            }
        };
        let name = self.library(library).table.name(conflict).to_vec();
        let first = self.owner_name(library, &name);
        Err(Error::Duplicate { symbol: for_message(&name), first, second: file })
    }

    /// An object and all that use it, directly or not, in the order in which they are found.
    fn with_users(&self, object: ObjectId) -> Vec<ObjectId> {
        let mut found = vec![object];
        let mut known: HashSet<ObjectId> = HashSet::from_iter([object]);
        let mut next = 0;
        while next < found.len() {
            let used = found[next];
            let users =
                self.linked().filter(|(_, linked)| linked.uses.contains(&used)).map(|(id, _)| id);
            let fresh: Vec<_> = users.filter(|user| known.insert(*user)).collect();
            found.extend(fresh);
            next += 1;
        }
        found
    }
}

/// Whether each object keeps its own definition of a name, though one would do: a pointer to a personality function. Otherwise
/// all objects with exceptions would use the first one.
fn is_own_copy(name: &[u8]) -> bool {
    name.starts_with(b"DW.ref.")
}

/// A definition of an object.
struct Defines<'a> {
    name: &'a [u8],
    entry: Entry,
    size: u64,
}

/// The definitions of an object while they are added.
#[derive(Default)]
struct Adding {
    entries: Vec<EntryId>,
    /// Its symbols that another definition is taken for.
    lost: Vec<u32>,
    /// Definitions of other objects that are not used any more, as they were.
    displaced: Vec<(ObjectId, EntryId, Entry)>,
    failure: Option<Failure>,
}

/// Why definitions cannot be added.
enum Failure {
    Conflict(EntryId),
    /// The bytes of the names so far.
    Names(usize),
}

/// Bytes of names that an object may define however small it is.
const MAX_NAMES: usize = 1 << 20;

enum Choice {
    First,
    Second,
    Conflict,
}

/// What a definition is. Common symbols give way like weak ones.
fn flags_of(view: View<'_>, symbol: u32) -> Flags {
    let entry = &view.symbols[symbol as usize];
    let kind = entry.st_type();
    let weak = entry.st_bind() == elf::STB_WEAK || view.home(symbol) == Home::Common;
    let hidden = matches!(entry.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
    Flags::default()
        .with(Flags::WEAK, weak)
        .with(Flags::COMMON, view.home(symbol) == Home::Common)
        .with(Flags::HIDDEN, hidden)
        .with(Flags::CALLABLE, kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC)
        .with(Flags::THREAD_LOCAL, kind == elf::STT_TLS)
}

impl Library {
    /// Its name.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.session.state.lock().library(self.id).name)
    }
}
