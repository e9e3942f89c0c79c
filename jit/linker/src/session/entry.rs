//! Entries of symbol tables, and the identifiers of libraries, objects and entries.

use std::num::NonZeroU32;

/// A library of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LibraryId(NonZeroU32);

/// The index of an object in its session. A later object may reuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectId(pub(super) u32);

/// The index of a symbol in its library's table. It stays the same while the library lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EntryId(pub(super) u32);

/// A definition: its library and its index there.
pub(super) type DefinitionId = (LibraryId, EntryId);

/// A symbol of a library.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    /// The symbol's index in its owner.
    pub(super) symbol: u32,
    pub(super) flags: Flags,
    /// Address of an absolute symbol.
    pub(super) address: u64,
}

/// The party that defines a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// No party any more: the symbol's object was removed, or pruned it.
    Nobody,
    /// An object.
    Object(ObjectId),
    /// The program that uses the session, or a generator.
    Absolute,
}

/// Properties of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags(pub(super) u8);

impl LibraryId {
    pub(super) fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("a session has less than 2^32 libraries"))
    }

    pub(super) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Entry {
    /// A name without a definition.
    pub(super) const NONE: Self =
        Self { owner: Owner::Nobody, symbol: 0, flags: Flags(0), address: 0 };

    /// Creates the entry of an object's symbol.
    pub(super) fn for_object(object: ObjectId, symbol: u32, flags: Flags) -> Self {
        Self { owner: Owner::Object(object), symbol, flags, address: 0 }
    }

    /// Creates the entry of a symbol at an address.
    pub(super) fn absolute(address: u64, flags: Flags) -> Self {
        Self { owner: Owner::Absolute, symbol: 0, flags, address }
    }
}

impl Flags {
    pub(super) const WEAK: Self = Self(1);
    pub(super) const HIDDEN: Self = Self(2);
    pub(super) const CALLABLE: Self = Self(4);
    pub(super) const THREAD_LOCAL: Self = Self(8);
    /// A definition by a generator, which an object's definition replaces.
    pub(super) const GENERATED: Self = Self(16);
    /// A common symbol: the largest of several takes precedence.
    pub(super) const COMMON: Self = Self(32);
    /// A name that an object has, without a definition.
    pub(super) const NAME_ONLY: Self = Self(64);

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn with(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { self }
    }
}
