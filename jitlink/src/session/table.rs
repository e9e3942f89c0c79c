//! The symbols of a library by name.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::ObjectId;

/// The place of a symbol in its library's table. It stays the same while the library lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EntryId(pub(super) u32);

/// Who defines a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody any more: its object was removed, or pruned it.
    Nobody,
    /// An object.
    Object(ObjectId),
    /// The program that uses the session, or a generator.
    Absolute,
}

/// A symbol of a library. Names are kept apart, so that this is small.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    name: u32,
    pub(super) owner: Owner,
    /// Its place in the owner's symbol table.
    pub(super) symbol: u32,
    pub(super) flags: Flags,
    /// Valid once its object is linked.
    pub(super) address: u64,
}

/// What kind of symbol it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags(u8);

impl Flags {
    pub(super) const WEAK: Self = Self(1);
    pub(super) const HIDDEN: Self = Self(2);
    pub(super) const CALLABLE: Self = Self(4);
    pub(super) const THREAD_LOCAL: Self = Self(8);
    /// Given by a generator: a definition in an object takes its place.
    pub(super) const GENERATED: Self = Self(16);

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn with(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { self }
    }
}

/// Names and entries.
#[derive(Default)]
pub(super) struct SymbolTable {
    /// All names, each followed by a zero.
    names: Vec<u8>,
    entries: Vec<Entry>,
    by_name: HashTable<u32>,
    hasher: FixedState,
}

impl SymbolTable {
    /// Makes room, so that so many symbols can be added without moving the table.
    pub(super) fn reserve(&mut self, symbols: usize) {
        let Self { names, entries, by_name, hasher } = self;
        entries.reserve(symbols);
        by_name.reserve(symbols, |id| hasher.hash_one(name_at(names, entries[*id as usize].name)));
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<EntryId> {
        let hash = self.hasher.hash_one(name);
        let same = |id: &u32| name_is(&self.names, self.entries[*id as usize].name, name);
        self.by_name.find(hash, same).copied().map(EntryId)
    }

    /// The entry of a name, made without an owner if there is none.
    pub(super) fn intern(&mut self, name: &[u8]) -> EntryId {
        let Self { names, entries, by_name, hasher } = self;
        let hash = hasher.hash_one(name);
        let same = |id: &u32| name_is(names, entries[*id as usize].name, name);
        if let Some(id) = by_name.find(hash, same) {
            return EntryId(*id);
        }
        let id = entries.len() as u32;
        let at = names.len() as u32;
        names.extend_from_slice(name);
        names.push(0);
        entries.push(Entry {
            name: at,
            owner: Owner::Nobody,
            symbol: 0,
            flags: Flags::default(),
            address: 0,
        });
        by_name.insert_unique(hash, id, |id| {
            hasher.hash_one(name_at(names, entries[*id as usize].name))
        });
        EntryId(id)
    }

    pub(super) fn entry(&self, id: EntryId) -> &Entry {
        &self.entries[id.0 as usize]
    }

    pub(super) fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        &mut self.entries[id.0 as usize]
    }

    pub(super) fn name(&self, id: EntryId) -> &[u8] {
        name_at(&self.names, self.entries[id.0 as usize].name)
    }
}

fn name_at(names: &[u8], at: u32) -> &[u8] {
    let rest = &names[at as usize..];
    &rest[..memchr::memchr(0, rest).expect("every name is followed by a zero")]
}

fn name_is(names: &[u8], at: u32, name: &[u8]) -> bool {
    let rest = &names[at as usize..];
    rest.len() > name.len() && rest[name.len()] == 0 && &rest[..name.len()] == name
}
