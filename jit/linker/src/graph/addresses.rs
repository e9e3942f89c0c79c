//! The addresses of symbols: computed from the object on demand, except for a few listed ones.

use super::{BlockId, Definition, LinkGraph, NO_SEGMENT, SymbolId};
use crate::elf::{DefinitionPlace, LE, View};

/// The address of a symbol whose block is not in the linked code.
pub(super) const GONE: u64 = u64::MAX;

/// The addresses of all symbols of a graph with memory. Symbols that are not at the object's
/// definition are listed, and found by one bit for each symbol.
pub(super) struct Addresses<'a> {
    graph: &'a LinkGraph,
    view: View<'a>,
    /// The segments' addresses, by the segment number in a block's state.
    segments: [u64; NO_SEGMENT as usize + 1],
    is_listed: Vec<u64>,
    /// Number of listed symbols before each word of [`Self::is_listed`].
    ranks: Vec<u32>,
    listed: Vec<u64>,
}

impl<'a> Addresses<'a> {
    /// Creates the addresses that follow from the symbols' definitions. The symbols in `others` are
    /// at 0 until [`Self::set`] gives their addresses.
    pub(super) fn new(
        graph: &'a LinkGraph,
        view: View<'a>,
        others: impl Iterator<Item = SymbolId>,
    ) -> Self {
        let count = graph.symbol_count();
        let redefined = || graph.redefined.keys().copied().map(SymbolId);
        let added = (view.symbols.len() as u32..count).map(SymbolId);
        let mut addresses = Self {
            graph,
            view,
            segments: [0; NO_SEGMENT as usize + 1],
            is_listed: vec![0; count.div_ceil(64) as usize],
            ranks: Vec::new(),
            listed: Vec::new(),
        };
        for (address, segment) in addresses.segments.iter_mut().zip(&graph.segments) {
            *address = segment.address;
        }
        for symbol in redefined().chain(added.clone()).chain(others) {
            addresses.is_listed[symbol.0 as usize / 64] |= 1 << (symbol.0 % 64);
        }
        addresses.count_listed();
        for symbol in redefined().chain(added) {
            addresses.set(symbol, addresses.defined(graph.definition_in(view, symbol)));
        }
        addresses
    }

    /// Sets the address of a listed symbol.
    pub(super) fn set(&mut self, symbol: SymbolId, address: u64) {
        if let Some(index) = self.index(symbol) {
            self.listed[index] = address;
        }
    }

    /// Returns the address of a symbol; [`GONE`] if its block is not in the linked code.
    #[inline]
    pub(super) fn get(&self, symbol: SymbolId) -> u64 {
        if let Some(index) = self.index(symbol) {
            return self.listed[index];
        }
        match self.view.definition_place(symbol.0) {
            DefinitionPlace::Section(section) => {
                let block = BlockId(section);
                match self.graph.base.live_position(block) {
                    Some((segment, placement)) => self.segments[usize::from(segment)]
                        .wrapping_add(placement.into())
                        .wrapping_add(self.view.symbols[symbol.0 as usize].st_value.get(LE)),
                    None if self.graph.base.contains(section) => GONE,
                    None => 0,
                }
            }
            DefinitionPlace::Absolute => self.view.symbols[symbol.0 as usize].st_value.get(LE),
            DefinitionPlace::Undefined | DefinitionPlace::Common => 0,
        }
    }

    fn defined(&self, definition: Definition) -> u64 {
        match definition {
            Definition::Block(block, offset) => match self.graph.live_address(block) {
                Some(address) => address.wrapping_add(offset),
                None => GONE,
            },
            Definition::Absolute(value) => value,
            Definition::External => 0,
        }
    }

    fn count_listed(&mut self) {
        let mut count = 0;
        self.ranks = Vec::with_capacity(self.is_listed.len());
        for word in &self.is_listed {
            self.ranks.push(count);
            count += word.count_ones();
        }
        self.listed = vec![0; count as usize];
    }

    /// Returns the index of a symbol's address among the listed ones.
    #[inline]
    fn index(&self, symbol: SymbolId) -> Option<usize> {
        let (word, bit) = (symbol.0 as usize / 64, 1 << (symbol.0 % 64));
        let bits = self.is_listed[word];
        (bits & bit != 0).then(|| (self.ranks[word] + (bits & (bit - 1)).count_ones()) as usize)
    }
}
