//! The addresses of symbols: computed from the object when they are wanted, but for a few that are listed.

use super::{BlockId, Definition, LinkGraph, NO_SEGMENT, SymbolId};
use crate::elf::{Home, LE, View};

/// The address of a symbol whose block is not in the linked code.
pub(super) const GONE: u64 = u64::MAX;

/// The addresses of all symbols of a graph that has memory: those that are not where the object says are listed, and found by a
/// bit for each symbol.
pub(super) struct Addresses<'a> {
    graph: &'a LinkGraph,
    view: View<'a>,
    /// By the number that a block's state has.
    segments: [u64; NO_SEGMENT as usize + 1],
    is_listed: Vec<u64>,
    /// For each word of [`Self::is_listed`], how many symbols before it are listed.
    ranks: Vec<u32>,
    listed: Vec<u64>,
}

impl<'a> Addresses<'a> {
    /// The addresses that follow from where symbols are defined, but for these symbols, which are at 0 until [`Self::set`] says
    /// where.
    pub(super) fn of(
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

    /// Says where a symbol is that is listed.
    pub(super) fn set(&mut self, symbol: SymbolId, address: u64) {
        if let Some(index) = self.index(symbol) {
            self.listed[index] = address;
        }
    }

    /// The address of a symbol; [`GONE`] if its block is not in the linked code.
    #[inline]
    pub(super) fn get(&self, symbol: SymbolId) -> u64 {
        if let Some(index) = self.index(symbol) {
            return self.listed[index];
        }
        match self.view.home(symbol.0) {
            Home::Section(section) => {
                let block = BlockId(section);
                match self.graph.base.live_position(block) {
                    Some((segment, placement)) => self.segments[usize::from(segment)]
                        .wrapping_add(placement.into())
                        .wrapping_add(self.view.symbols[symbol.0 as usize].st_value.get(LE)),
                    None if self.graph.base.contains(section) => GONE,
                    None => 0,
                }
            }
            Home::Absolute => self.view.symbols[symbol.0 as usize].st_value.get(LE),
            Home::Undefined | Home::Common => 0,
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

    /// The place of a symbol's address among those that are listed.
    #[inline]
    fn index(&self, symbol: SymbolId) -> Option<usize> {
        let (word, bit) = (symbol.0 as usize / 64, 1 << (symbol.0 % 64));
        let bits = self.is_listed[word];
        (bits & bit != 0).then(|| (self.ranks[word] + (bits & (bit - 1)).count_ones()) as usize)
    }
}
