//! The purposes for which symbols are needed. Only the purposes that later steps query outlast a
//! scan of the edges.

use super::{Definition, LinkGraph, Scope, SymbolId};
use crate::elf::View;

/// The purposes of references to a symbol: bits, for each symbol.
pub(super) mod need {
    pub(crate) const REFERENCED: u16 = 1;
    pub(crate) const CALL: u16 = 1 << 1;
    /// A reference by the symbol's address in 32 bits.
    pub(crate) const NARROW: u16 = 1 << 2;
    /// A reference by distance.
    pub(crate) const RELATIVE: u16 = 1 << 3;
    /// A reference through a slot, from a relaxable instruction.
    pub(crate) const SLOT_RELAXABLE: u16 = 1 << 4;
    /// A reference through a slot.
    pub(crate) const SLOT: u16 = 1 << 5;
    pub(crate) const TLS_PAIR: u16 = 1 << 6;
    pub(crate) const TLS_OFFSET_SLOT: u16 = 1 << 7;
    pub(crate) const TLS_DESCRIPTOR: u16 = 1 << 8;
    pub(crate) const TLS_OFFSET: u16 = 1 << 9;
    /// A reference through a slot that lies near the start of the GOT.
    pub(crate) const SLOT_NEAR: u16 = 1 << 10;
    /// A reference by the offset in this graph's module, whichever graph defines the symbol (local
    /// dynamic).
    pub(crate) const TLS_MODULE_OFFSET: u16 = 1 << 11;
    /// A mark of a symbol that is undefined in the object and that the linker defines in this
    /// graph.
    pub(crate) const OWN: u16 = 1 << 12;
}

/// The symbols with needs that outlast the scan, ascending, and the bits of [`need`] for each.
#[derive(Default)]
pub(super) struct Needs {
    symbols: Vec<SymbolId>,
    bits: Vec<u16>,
}

impl Needs {
    /// Returns the lasting needs of a symbol. The call searches, so it is too slow for each edge.
    pub(super) fn get(&self, symbol: SymbolId) -> u16 {
        self.symbols.binary_search(&symbol).map_or(0, |index| self.bits[index])
    }

    /// Adds to the needs of a symbol that has some.
    pub(super) fn insert(&mut self, symbol: SymbolId, bits: u16) {
        if let Ok(index) = self.symbols.binary_search(&symbol) {
            self.bits[index] |= bits;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SymbolId, u16)> {
        self.symbols.iter().copied().zip(self.bits.iter().copied())
    }
}

impl LinkGraph {
    /// Returns whether code uses thread-local storage by a fixed offset from the thread pointer, or
    /// takes another object's variables to be in its module, which holds at fixed offsets only.
    /// Requires [`Self::scan`].
    pub(crate) fn uses_thread_pointer(&self) -> bool {
        let view = self.object.view();
        let elsewhere = |symbol| self.definition_in(view, symbol) == Definition::External;
        self.tables.needs.iter().any(|(symbol, needs)| {
            needs & (need::TLS_OFFSET | need::TLS_OFFSET_SLOT) != 0
                || needs & need::TLS_MODULE_OFFSET != 0 && elsewhere(symbol)
        })
    }

    /// Returns the referenced symbols that are not defined here. Requires [`Self::scan`].
    pub(crate) fn undefined(&self) -> impl Iterator<Item = SymbolId> {
        let view = self.object.view();
        let needs = self.tables.needs.iter().filter(|(_, needs)| needs & need::OWN == 0);
        needs
            .map(|(symbol, _)| symbol)
            .filter(move |symbol| self.is_elsewhere(*symbol, self.definition_in(view, *symbol)))
    }

    /// Returns whether a symbol is referred to by a 32-bit address or distance. Requires
    /// [`Self::scan`].
    pub(crate) fn wants_nearby(&self, symbol: SymbolId) -> bool {
        self.tables.needs.get(symbol) & (need::NARROW | need::RELATIVE) != 0
    }

    /// Returns the scanned needs, indexed by symbol, that later steps query.
    pub(super) fn lasting_needs(&self, view: View<'_>, scanned: &[u16]) -> Needs {
        /// The needs for which even a definition of this graph requires an entry or a place.
        const OF_DEFINITIONS: u16 = need::SLOT
            | need::TLS_PAIR
            | need::TLS_OFFSET_SLOT
            | need::TLS_DESCRIPTOR
            | need::TLS_OFFSET;
        let lasts = |(symbol, bits): &(SymbolId, u16)| {
            *bits & OF_DEFINITIONS != 0
                || *bits != 0
                    && match self.definition_in(view, *symbol) {
                        Definition::Absolute(_) => true,
                        definition => self.is_elsewhere(*symbol, definition),
                    }
        };
        let all = (0..).map(SymbolId).zip(scanned.iter().copied());
        let (mut symbols, mut bits): (Vec<_>, Vec<_>) = all.filter(lasts).unzip();
        symbols.shrink_to_fit();
        bits.shrink_to_fit();
        Needs { symbols, bits }
    }

    /// Returns whether a symbol is defined elsewhere, or left to another object with its COMDAT
    /// group.
    fn is_elsewhere(&self, symbol: SymbolId, definition: Definition) -> bool {
        match definition {
            Definition::External => true,
            Definition::Block(block, _) => {
                self.is_discarded(block) && self.symbol(symbol).scope != Scope::Local
            }
            Definition::Absolute(_) => false,
        }
    }
}
