//! The symbols of a library by name.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::entry::{Entry, EntryId, Flags, ObjectId, Owner};
use super::object_state::ObjectState;

/// Names and entries. A table of many symbols takes most of a session's memory, so each symbol
/// takes little: names of objects' symbols stay in the objects.
///
/// A name stays when its definition goes, so a table grows with the number of different names that
/// it has had.
#[derive(Default)]
pub(super) struct SymbolTable {
    entries: Vec<Packed>,
    /// Names and addresses of symbols without an object.
    own: Vec<SymbolRecord>,
    /// Free places in `own`.
    vacant: Vec<u32>,
    by_name: HashTable<u32>,
    hasher: FixedState,
}

/// An [`Entry`] in eight bytes.
#[derive(Clone, Copy)]
struct Packed {
    /// [`NOBODY`], [`ABSOLUTE`], or an object's number plus [`FIRST_OBJECT`]. The flags are in the
    /// upper bits.
    owner: u32,
    /// The symbol's index in its object, or an index in [`SymbolTable::own`].
    at: u32,
}

#[derive(Default)]
struct SymbolRecord {
    name: Box<[u8]>,
    address: u64,
}

const NOBODY: u32 = 0;
const ABSOLUTE: u32 = 1;
const FIRST_OBJECT: u32 = 2;
const FLAGS_SHIFT: u32 = 25;
const OWNER: u32 = (1 << FLAGS_SHIFT) - 1;
/// The limit for the number of a session's objects at one time.
pub(super) const MAX_OBJECTS: usize = (1 << FLAGS_SHIFT) - 1024;

impl SymbolTable {
    /// Reserves room for `symbols` more symbols, so that their addition does not move the table.
    pub(super) fn reserve(&mut self, symbols: usize, objects: &[ObjectState]) {
        if self.entries.capacity() - self.entries.len() < symbols {
            // Doubling would be wasteful: the table may take most of the memory.
            self.entries.reserve_exact(symbols.max(self.entries.len() / 16));
        }
        if self.by_name.capacity() - self.by_name.len() >= symbols {
            return;
        }
        // Symbols are inserted in the order of their names in memory.
        self.by_name = HashTable::new();
        let mut by_name = HashTable::with_capacity(self.entries.len() + symbols);
        let names = self.names(objects);
        for id in 0..self.entries.len() as u32 {
            by_name.insert_unique(self.hasher.hash_one(names.get(id)), id, |id| {
                self.hasher.hash_one(names.get(*id))
            });
        }
        self.by_name = by_name;
    }

    pub(super) fn find(&self, name: &[u8], objects: &[ObjectState]) -> Option<EntryId> {
        self.find_hashed(self.hasher.hash_one(name), name, objects)
    }

    /// Returns the entry of a name, created without an owner on demand. `None` if there is no room
    /// for another one.
    pub(super) fn intern(&mut self, name: &[u8], objects: &[ObjectState]) -> Option<EntryId> {
        let hash = self.hasher.hash_one(name);
        if let Some(id) = self.find_hashed(hash, name, objects) {
            return Some(id);
        }
        let at = self.keep(name);
        self.add(hash, Packed { owner: NOBODY, at }, objects)
    }

    /// Returns the same as [`Self::intern`], for the name of a symbol in an object.
    #[inline]
    pub(super) fn intern_of_object(
        &mut self,
        name: &[u8],
        (object, symbol): (ObjectId, u32),
        objects: &[ObjectState],
    ) -> Option<EntryId> {
        let hash = self.hasher.hash_one(name);
        if let Some(id) = self.find_hashed(hash, name, objects) {
            return Some(id);
        }
        self.add(hash, Packed::for_object(object, symbol, Flags::NAME_ONLY), objects)
    }

    #[inline]
    pub(super) fn entry(&self, id: EntryId) -> Entry {
        let entry = self.entries[id.0 as usize];
        match entry.object() {
            Some(_) if entry.flags().contains(Flags::NAME_ONLY) => Entry::NONE,
            Some(object) => Entry::for_object(object, entry.at, entry.flags()),
            None if entry.owner & OWNER == NOBODY => Entry::NONE,
            None => Entry::absolute(self.own[entry.at as usize].address, entry.flags()),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, id: EntryId, entry: Entry, objects: &[ObjectState]) {
        let was = self.entries[id.0 as usize];
        let owner = match entry.owner {
            Owner::Object(object) => {
                if was.object().is_none() {
                    self.own[was.at as usize] = SymbolRecord::default();
                    self.vacant.push(was.at);
                }
                self.entries[id.0 as usize] = Packed::for_object(object, entry.symbol, entry.flags);
                return;
            }
            Owner::Nobody => NOBODY,
            Owner::Absolute => ABSOLUTE,
        };
        let at = match was.object() {
            None => was.at,
            Some(object) => self.keep(objects[object.0 as usize].symbol_name(was.at)),
        };
        self.own[at as usize].address = entry.address;
        self.entries[id.0 as usize] =
            Packed { owner: owner | (u32::from(entry.flags.0) << FLAGS_SHIFT), at };
    }

    /// Leaves a name without a definition, and its object without the name.
    pub(super) fn disown(&mut self, id: EntryId, objects: &[ObjectState]) {
        self.set(id, Entry::NONE, objects);
    }

    /// Returns the index of a symbol in an object that has its name, with or without a definition.
    pub(super) fn symbol_of(&self, object: ObjectId, id: EntryId) -> Option<u32> {
        let entry = self.entries[id.0 as usize];
        (entry.object() == Some(object)).then_some(entry.at)
    }

    /// Changes the index of a symbol in its object.
    pub(super) fn set_symbol(&mut self, id: EntryId, symbol: u32) {
        self.entries[id.0 as usize].at = symbol;
    }

    pub(super) fn name<'a>(&'a self, id: EntryId, objects: &'a [ObjectState]) -> &'a [u8] {
        self.names(objects).get(id.0)
    }

    fn names<'a>(&'a self, objects: &'a [ObjectState]) -> Names<'a> {
        Names { entries: &self.entries, own: &self.own, objects }
    }

    #[inline]
    fn find_hashed(&self, hash: u64, name: &[u8], objects: &[ObjectState]) -> Option<EntryId> {
        let names = self.names(objects);
        self.by_name.find(hash, |id| names.is(*id, name)).copied().map(EntryId)
    }

    #[inline]
    fn add(&mut self, hash: u64, entry: Packed, objects: &[ObjectState]) -> Option<EntryId> {
        let id = u32::try_from(self.entries.len()).ok()?;
        self.reserve(1, objects);
        self.entries.push(entry);
        let Self { entries, own, by_name, hasher, .. } = self;
        let names = Names { entries, own, objects };
        by_name.insert_unique(hash, id, |id| hasher.hash_one(names.get(*id)));
        Some(EntryId(id))
    }

    fn keep(&mut self, name: &[u8]) -> u32 {
        let own = SymbolRecord { name: name.into(), address: 0 };
        match self.vacant.pop() {
            Some(at) => {
                self.own[at as usize] = own;
                at
            }
            None => {
                self.own.push(own);
                self.own.len() as u32 - 1
            }
        }
    }
}

impl Packed {
    fn for_object(object: ObjectId, symbol: u32, flags: Flags) -> Self {
        Self { owner: (object.0 + FIRST_OBJECT) | (u32::from(flags.0) << FLAGS_SHIFT), at: symbol }
    }

    #[inline]
    fn object(self) -> Option<ObjectId> {
        (self.owner & OWNER).checked_sub(FIRST_OBJECT).map(ObjectId)
    }

    fn flags(self) -> Flags {
        Flags((self.owner >> FLAGS_SHIFT) as u8)
    }
}

/// The names of entries, in objects and in the table.
#[derive(Clone, Copy)]
struct Names<'a> {
    entries: &'a [Packed],
    own: &'a [SymbolRecord],
    objects: &'a [ObjectState],
}

impl<'a> Names<'a> {
    #[inline]
    fn get(self, id: u32) -> &'a [u8] {
        let entry = self.entries[id as usize];
        match entry.object() {
            Some(object) => self.objects[object.0 as usize].symbol_name(entry.at),
            None => &self.own[entry.at as usize].name,
        }
    }

    #[inline]
    fn is(self, id: u32, name: &[u8]) -> bool {
        let entry = self.entries[id as usize];
        match entry.object() {
            Some(object) => self.objects[object.0 as usize].is_symbol_named(entry.at, name),
            None => *self.own[entry.at as usize].name == *name,
        }
    }
}
