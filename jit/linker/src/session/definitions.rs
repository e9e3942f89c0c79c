//! Definitions of objects: the choice among several definitions of one name.

use hashbrown::{HashMap, HashSet};
use object::elf;

use super::entry::{Entry, EntryId, Flags, LibraryId, ObjectId, Owner};
use super::object_state::{Phase, ReplacedDefinition, Source};
use super::state::{State, too_many_names};
use super::symbols::{EntryList, OVERHEAD};
use crate::elf::{DefinitionPlace, LE, NO_MACHINE_CODE, SLIM, View};
use crate::error::for_message;
use crate::graph::{Definition, LinkGraph, Linkage, Scope, Symbol};
use crate::{Error, Result};

impl State {
    /// Adds the definitions of an object.
    pub(super) fn define_object(&mut self, id: ObjectId, view: View<'_>) -> Result<()> {
        self.claim_groups(id, view, |_| true)?;
        let lost = LinkGraph::sections_of_groups(view, &self.object(id).lost_groups);
        self.define_symbols(id, view, |definition_place| match definition_place {
            DefinitionPlace::Undefined => false,
            DefinitionPlace::Section(section) => lost.binary_search(&section).is_err(),
            DefinitionPlace::Absolute | DefinitionPlace::Common => true,
        })
    }

    /// Adds the object's lost definitions that have no owner any more.
    pub(super) fn reclaim_for(&mut self, id: ObjectId) -> Result<()> {
        let library = self.object(id).library;
        let mut adding = AddedDefinitions::default();
        for lost in std::mem::take(&mut self.object_mut(id).lost) {
            let fresh = Entry::for_object(id, lost.symbol, lost.flags);
            if !self.define((id, library), lost.entry, fresh, lost.size, &mut adding) {
                // The object has not regained the definition.
                adding.failure = None;
                adding.lost.push(lost);
            }
        }
        self.commit(id, adding)?;
        let Phase::Pending(Source::Elf(elf)) = &self.object(id).phase else { return Ok(()) };
        let elf = elf.clone();
        let lost = std::mem::take(&mut self.object_mut(id).lost_groups);
        let free =
            self.claim_groups(id, elf.view(), |section| lost.binary_search(&section).is_ok())?;
        let sections = LinkGraph::sections_of_groups(elf.view(), &free);
        if sections.is_empty() {
            return Ok(());
        }
        self.define_symbols(id, elf.view(), |definition_place| match definition_place {
            DefinitionPlace::Section(section) => sections.binary_search(&section).is_ok(),
            _ => false,
        })
    }

    /// Makes an object the owner of its unowned COMDAT groups, among the groups with sections
    /// accepted by `is_asked`. Returns these sections.
    fn claim_groups(
        &mut self,
        id: ObjectId,
        view: View<'_>,
        is_asked: impl Fn(u32) -> bool,
    ) -> Result<Vec<u32>> {
        let (mut free, mut lost) = (Vec::new(), Vec::new());
        let library = self.object(id).library;
        for group in LinkGraph::groups(view) {
            if !is_asked(group.section) || is_own_copy(group.signature) {
                continue;
            }
            let symbol = (id, group.symbol);
            let Some(signature) = self.intern_of_object(library, group.signature, symbol) else {
                return Err(too_many_names(self.object(id).name.to_string()));
            };
            let library = self.library_mut(library);
            match library.groups.get(&signature) {
                Some(owner) if *owner != id => lost.push(group.section),
                Some(_) => {}
                None => {
                    library.groups.insert(signature, id);
                    self.object_mut(id).groups.push(signature);
                    free.push(group.section);
                }
            }
        }
        self.object_mut(id).lost_groups = lost;
        Ok(free)
    }

    /// Adds an object's definitions whose place `is_accepted` accepts.
    fn define_symbols(
        &mut self,
        id: ObjectId,
        view: View<'_>,
        is_accepted: impl Fn(DefinitionPlace) -> bool,
    ) -> Result<()> {
        let library = self.object(id).library;
        let globals = view.first_global.max(1)..view.symbols.len() as u32;
        let is_defined = |symbol: &u32| is_accepted(view.definition_place(*symbol));
        let defined: usize = globals.clone().filter(is_defined).count();
        self.reserve(library, defined);
        let definitions = globals.filter(is_defined).map(|symbol| Defines {
            name: view.symbol_name(symbol),
            entry: Entry::for_object(id, symbol, flags_of(view, symbol)),
            size: view.symbols[symbol as usize].st_size.get(LE),
            alignment: match view.definition_place(symbol) {
                DefinitionPlace::Common => view.symbols[symbol as usize].st_value.get(LE),
                _ => 1,
            },
        });
        self.define_all(id, 4 * view.bytes.len(), definitions)
    }

    /// Adds the definitions of a graph made by hand.
    pub(super) fn define_symbols_of_graph(
        &mut self,
        id: ObjectId,
        graph: &LinkGraph,
    ) -> Result<()> {
        let is_defined = |symbol: &Symbol<'_>| {
            symbol.scope != Scope::Local && symbol.definition != Definition::External
        };
        let definitions = graph.symbols().filter(is_defined).map(|symbol| {
            let flags = Flags::default()
                .with(Flags::WEAK, symbol.linkage == Linkage::Weak)
                .with(Flags::HIDDEN, symbol.scope == Scope::Hidden)
                .with(Flags::CALLABLE, symbol.callable);
            let entry = Entry::for_object(id, symbol.id.index(), flags);
            Defines { name: symbol.name, entry, size: symbol.size, alignment: 1 }
        });
        self.define_all(id, usize::MAX, definitions)
    }

    fn define_all<'a>(
        &mut self,
        id: ObjectId,
        size_limit: usize,
        definitions: impl Iterator<Item = Defines<'a>>,
    ) -> Result<()> {
        let library = self.object(id).library;
        let mut adding = AddedDefinitions::default();
        let limit = size_limit.clamp(MAX_NAMES, u32::MAX as usize);
        for Defines { name, entry: fresh, size, alignment } in
            definitions.filter(|definition| !is_own_copy(definition.name))
        {
            // Names may overlap in a file, so that their total size can far exceed the file's.
            let names = &mut self.object_mut(id).name_bytes;
            *names += name.len() + OVERHEAD;
            if *names > limit {
                adding.failure = Some(Failure::Names(limit));
                break;
            }
            let Some(entry) = self.intern_of_object(library, name, (id, fresh.symbol)) else {
                adding.failure = Some(Failure::Full);
                break;
            };
            if fresh.flags.contains(Flags::COMMON) {
                if name == SLIM {
                    adding.failure = Some(Failure::NoMachineCode);
                    break;
                }
                let largest = self.library_mut(library).common_alignments.entry(entry).or_insert(1);
                *largest = alignment.max(*largest);
            }
            if !self.define((id, library), entry, fresh, size, &mut adding) {
                break;
            }
        }
        self.commit(id, adding)
    }

    /// Adds one definition of an object, unless another definition of its name takes precedence.
    /// Returns `false` on failure.
    #[inline]
    fn define(
        &mut self,
        (id, library): (ObjectId, LibraryId),
        entry: EntryId,
        fresh: Entry,
        size: u64,
        adding: &mut AddedDefinitions,
    ) -> bool {
        let known = self.entry((library, entry));
        if known.owner == Owner::Nobody {
            adding.entries.push(entry);
            self.set_definition(library, entry, fresh, size);
            return true;
        }
        let known_size = match known.flags.contains(Flags::COMMON) {
            true => self.library(library).commons.get(&entry).copied().unwrap_or(0),
            false => 0,
        };
        match self.choose((&known, known_size), (&fresh, size)) {
            Choice::First => {
                adding.lost.push(ReplacedDefinition {
                    entry,
                    symbol: fresh.symbol,
                    flags: fresh.flags,
                    size,
                });
            }
            Choice::Conflict => adding.failure = Some(Failure::Conflict(entry)),
            Choice::Second => {
                match known.owner {
                    // The object defines the name twice.
                    Owner::Object(owner) if owner == id => adding.lost.push(ReplacedDefinition {
                        entry,
                        symbol: known.symbol,
                        flags: known.flags,
                        size: known_size,
                    }),
                    _ => {
                        adding.displaced.push((entry, known, known_size));
                        adding.entries.push(entry);
                    }
                }
                self.set_definition(library, entry, fresh, size);
            }
        }
        adding.failure.is_none()
    }

    #[inline]
    fn set_definition(&mut self, library: LibraryId, id: EntryId, entry: Entry, size: u64) {
        self.set_entry((library, id), entry);
        if entry.flags.contains(Flags::COMMON) {
            self.library_mut(library).commons.insert(id, size);
        }
    }

    /// Chooses between two definitions of a name, each with its size if it is common. A common
    /// symbol takes precedence over a weak one.
    fn choose(&self, (first, size): (&Entry, u64), (second, second_size): (&Entry, u64)) -> Choice {
        let replaceable = match first.owner {
            _ if first.flags.contains(Flags::GENERATED) => return Choice::Second,
            Owner::Nobody | Owner::Absolute => false,
            Owner::Object(owner) => matches!(self.object(owner).phase, Phase::Pending(_)),
        };
        let second_counts = match (rank(first.flags), rank(second.flags)) {
            (Rank::Common, Rank::Common) => size < second_size,
            (Rank::Weak, Rank::Common) => replaceable,
            (_, Rank::Strong) => true,
            _ => false,
        };
        match second_counts {
            false => Choice::First,
            true if replaceable && rank(first.flags) != Rank::Strong => Choice::Second,
            true => Choice::Conflict,
        }
    }

    /// Completes or undoes the changes of [`Self::define`].
    fn commit(&mut self, id: ObjectId, adding: AddedDefinitions) -> Result<()> {
        let library = self.object(id).library;
        let object = self.object_mut(id);
        adding.entries.iter().for_each(|entry| object.entries.push(entry));
        object.lost.extend(adding.lost);
        let Some(failure) = adding.failure else {
            self.take_from_owners(adding.displaced);
            return Ok(());
        };
        for (entry, was, size) in adding.displaced {
            self.set_definition(library, entry, was, size);
        }
        let file = self.object(id).name.to_string();
        let conflict = match failure {
            Failure::Conflict(conflict) => conflict,
            Failure::Full => return Err(too_many_names(file)),
            Failure::NoMachineCode => {
                return Err(Error::Unsupported { file, problem: NO_MACHINE_CODE.to_owned() });
            }
            Failure::Names(bytes) => {
                let problem = format!(
                    "the names of its symbols overlap, and have more than {bytes} bytes together"
                );
                return Err(Error::Malformed { file, problem });
            }
        };
        let name = self.name_of((library, conflict)).to_vec();
        let first = self.owner_name(library, &name);
        Err(Error::Duplicate { symbol: for_message(&name), first, second: file })
    }

    /// Records the loss of these definitions in the objects that had them.
    fn take_from_owners(&mut self, displaced: Vec<(EntryId, Entry, u64)>) {
        let mut taken: HashMap<ObjectId, HashSet<EntryId>> = HashMap::new();
        for (entry, Entry { owner, symbol, flags, .. }, size) in displaced {
            if let Owner::Object(owner) = owner {
                self.object_mut(owner).lost.push(ReplacedDefinition { entry, symbol, flags, size });
                taken.entry(owner).or_default().insert(entry);
            }
        }
        for (owner, taken) in taken {
            let entries = &mut self.object_mut(owner).entries;
            *entries = entries.iter().filter(|entry| !taken.contains(entry)).collect();
        }
    }
}

/// Returns whether each object keeps its own definition of a name, although one would suffice: a
/// pointer to a personality function. Otherwise all objects with exceptions would use the first
/// object's.
fn is_own_copy(name: &[u8]) -> bool {
    name.starts_with(b"DW.ref.")
}

/// A definition of an object.
struct Defines<'a> {
    name: &'a [u8],
    entry: Entry,
    size: u64,
    /// Alignment in bytes, for a common symbol.
    alignment: u64,
}

/// The definitions of an object while they are added.
#[derive(Default)]
struct AddedDefinitions {
    entries: EntryList,
    /// Symbols of the object whose name has another definition.
    lost: Vec<ReplacedDefinition>,
    /// Replaced definitions of other objects, as they were, with their sizes if they are common.
    displaced: Vec<(EntryId, Entry, u64)>,
    failure: Option<Failure>,
}

/// The reason why definitions cannot be added.
enum Failure {
    Conflict(EntryId),
    /// A library without room for another name.
    Full,
    /// Names whose total size exceeds this limit in bytes.
    Names(usize),
    NoMachineCode,
}

/// The total size in bytes that the names of an object's definitions may have at any size of the
/// object.
const MAX_NAMES: usize = 1 << 20;

enum Choice {
    First,
    Second,
    Conflict,
}

/// The precedence of a definition among the definitions of its name.
#[derive(PartialEq, Eq)]
enum Rank {
    Weak,
    Common,
    Strong,
}

fn rank(flags: Flags) -> Rank {
    match () {
        () if flags.contains(Flags::COMMON) => Rank::Common,
        () if flags.contains(Flags::WEAK) => Rank::Weak,
        () => Rank::Strong,
    }
}

/// Returns the properties of a definition.
fn flags_of(view: View<'_>, symbol: u32) -> Flags {
    let entry = &view.symbols[symbol as usize];
    let kind = entry.st_type();
    let hidden = matches!(entry.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
    Flags::default()
        .with(Flags::WEAK, entry.st_bind() == elf::STB_WEAK)
        .with(Flags::COMMON, view.definition_place(symbol) == DefinitionPlace::Common)
        .with(Flags::HIDDEN, hidden)
        .with(Flags::CALLABLE, kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC)
        .with(Flags::THREAD_LOCAL, kind == elf::STT_TLS)
}
