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

/// A symbol of a library.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    /// Its place in the owner's symbol table.
    pub(super) symbol: u32,
    pub(super) flags: Flags,
    /// Valid once its object is linked.
    pub(super) address: u64,
}

impl Entry {
    /// A symbol of an object that is not linked yet.
    pub(super) fn of_object(object: ObjectId, symbol: u32, flags: Flags) -> Self {
        Self { owner: Owner::Object(object), symbol, flags, address: 0 }
    }

    /// A symbol at an address.
    pub(super) fn absolute(address: u64, flags: Flags) -> Self {
        Self { owner: Owner::Absolute, symbol: 0, flags, address }
    }
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
    /// A common symbol: of several, the largest counts.
    pub(super) const COMMON: Self = Self(32);

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn with(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { self }
    }
}

/// Names and entries. A table of many symbols is most of what a session keeps, so each of them is small.
///
/// A name stays when its definition goes, so a table grows with the number of different names that it has had, up to 4 GiB of
/// them.
#[derive(Default)]
pub(super) struct SymbolTable {
    /// All names, each followed by a zero.
    names: Vec<u8>,
    entries: Vec<Packed>,
    addresses: Vec<u64>,
    by_name: HashTable<u32>,
    hasher: FixedState,
}

/// An [`Entry`] without its address.
#[derive(Clone, Copy)]
struct Packed {
    name: u32,
    /// 0 for nobody, 1 for an absolute symbol, an object's number and 2 for an object. The flags are in the upper bits.
    owner: u32,
    symbol: u32,
}

const FLAGS_SHIFT: u32 = 26;
/// Objects of a session at one time.
pub(super) const MAX_OBJECTS: usize = (1 << FLAGS_SHIFT) - 1024;

impl SymbolTable {
    /// Makes room, so that so many symbols can be added without moving the table.
    pub(super) fn reserve(&mut self, symbols: usize) {
        reserve(&mut self.entries, symbols);
        reserve(&mut self.addresses, symbols);
        let Self { names, entries, by_name, hasher, .. } = self;
        by_name.reserve(symbols, |id| hasher.hash_one(name_at(names, entries[*id as usize].name)));
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<EntryId> {
        let hash = self.hasher.hash_one(name);
        let same = |id: &u32| name_is(&self.names, self.entries[*id as usize].name, name);
        self.by_name.find(hash, same).copied().map(EntryId)
    }

    /// The entry of a name, which has no zero in it, made without an owner if there is none. `None` if there is no room for
    /// another name.
    pub(super) fn intern(&mut self, name: &[u8]) -> Option<EntryId> {
        let Self { names, entries, addresses, by_name, hasher } = self;
        let hash = hasher.hash_one(name);
        let same = |id: &u32| name_is(names, entries[*id as usize].name, name);
        if let Some(id) = by_name.find(hash, same) {
            return Some(EntryId(*id));
        }
        let at = u32::try_from(names.len()).ok()?;
        let id = entries.len() as u32;
        reserve(names, name.len() + 1);
        names.extend_from_slice(name);
        names.push(0);
        entries.push(Packed { name: at, owner: 0, symbol: 0 });
        addresses.push(0);
        by_name.insert_unique(hash, id, |id| {
            hasher.hash_one(name_at(names, entries[*id as usize].name))
        });
        Some(EntryId(id))
    }

    #[inline]
    pub(super) fn entry(&self, id: EntryId) -> Entry {
        let Packed { owner, symbol, .. } = self.entries[id.0 as usize];
        let flags = Flags((owner >> FLAGS_SHIFT) as u8);
        let owner = match owner & ((1 << FLAGS_SHIFT) - 1) {
            0 => Owner::Nobody,
            1 => Owner::Absolute,
            object => Owner::Object(ObjectId(object - 2)),
        };
        Entry { owner, symbol, flags, address: self.addresses[id.0 as usize] }
    }

    pub(super) fn set(&mut self, id: EntryId, entry: Entry) {
        let owner = match entry.owner {
            Owner::Nobody => 0,
            Owner::Absolute => 1,
            Owner::Object(object) => object.0 + 2,
        };
        let packed = &mut self.entries[id.0 as usize];
        (packed.owner, packed.symbol) =
            (owner | u32::from(entry.flags.0) << FLAGS_SHIFT, entry.symbol);
        self.addresses[id.0 as usize] = entry.address;
    }

    pub(super) fn set_address(&mut self, id: EntryId, address: u64) {
        self.addresses[id.0 as usize] = address;
    }

    /// Leaves a name without a definition.
    pub(super) fn disown(&mut self, id: EntryId) {
        let nobody = Entry { owner: Owner::Nobody, symbol: 0, flags: Flags::default(), address: 0 };
        self.set(id, nobody);
    }

    pub(super) fn name(&self, id: EntryId) -> &[u8] {
        name_at(&self.names, self.entries[id.0 as usize].name)
    }
}

/// Makes room without doubling: a table of symbols may be most of the memory that there is.
fn reserve<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more.max(items.len() / 4));
    }
}

fn name_at(names: &[u8], at: u32) -> &[u8] {
    let rest = &names[at as usize..];
    &rest[..memchr::memchr(0, rest).expect("every name is followed by a zero")]
}

fn name_is(names: &[u8], at: u32, name: &[u8]) -> bool {
    let rest = &names[at as usize..];
    rest.len() > name.len()
        && rest[name.len()] == 0
        && &rest[..name.len()] == name
        // Otherwise it would be the end of one name and the start of the next.
        && memchr::memchr(0, name).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_taken_for_two_that_follow_each_other() {
        let mut table = SymbolTable::default();
        table.intern(b"a").unwrap();
        table.intern(b"b").unwrap();
        assert!(name_is(&table.names, 0, b"a") && name_is(&table.names, 2, b"b"));
        assert!(!name_is(&table.names, 0, b"a\0b"));
    }

    #[test]
    fn a_table_that_is_full_takes_no_other_names() {
        // Zeroes that nobody touches take no memory.
        let names = vec![0; u32::MAX as usize + 1];
        let mut table = SymbolTable { names, ..SymbolTable::default() };
        assert_eq!(table.intern(b"name"), None);
        assert_eq!(table.find(b"name"), None);
    }
}
