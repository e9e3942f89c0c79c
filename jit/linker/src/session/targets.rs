//! The definitions of a graph's external symbols.

use super::entry::{DefinitionId, EntryId, LibraryId};
use crate::graph::SymbolId;

/// Symbols, each with its definition. A weak one may have no definition; any other symbol without
/// one is at the session's phony address.
///
/// A link may have many of them, so each takes 8 bytes. Most symbols have the same defining library
/// as the symbol before.
#[derive(Default)]
pub(super) struct Targets {
    targets: Vec<(SymbolId, EntryId)>,
    /// Starts of runs of targets with the same defining library, or with no definition.
    libraries: Vec<(u32, Option<LibraryId>)>,
}

impl Targets {
    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn reserve(&mut self, targets: usize) {
        self.targets.reserve_exact(targets);
    }

    pub(super) fn push(&mut self, symbol: SymbolId, found: Option<DefinitionId>) {
        let library = found.map(|(library, _)| library);
        if self.libraries.last().is_none_or(|(_, last)| *last != library) {
            self.libraries.push((self.targets.len() as u32, library));
        }
        self.targets.push((symbol, found.map_or(EntryId(0), |(_, entry)| entry)));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SymbolId, Option<DefinitionId>)> {
        let ends = self.libraries.iter().skip(1).map(|(start, _)| *start as usize);
        let ends = ends.chain(std::iter::once(self.targets.len()));
        let runs = self.libraries.iter().zip(ends);
        runs.flat_map(|((start, library), end)| {
            let targets = self.targets[*start as usize..end].iter();
            targets.map(move |(symbol, entry)| (*symbol, library.map(|library| (library, *entry))))
        })
    }
}

impl Targets {
    /// Returns the symbols without a definition.
    pub(super) fn undefined(&self) -> impl Iterator<Item = SymbolId> {
        let ends = self.libraries.iter().skip(1).map(|(start, _)| *start as usize);
        let ends = ends.chain(std::iter::once(self.targets.len()));
        let runs = self.libraries.iter().zip(ends).filter(|((_, library), _)| library.is_none());
        runs.flat_map(|((start, _), end)| &self.targets[*start as usize..end])
            .map(|(symbol, _)| *symbol)
    }

    /// Removes symbols.
    pub(super) fn remove(&mut self, is_removed: impl Fn(SymbolId) -> bool) {
        *self = self.iter().filter(|(symbol, _)| !is_removed(*symbol)).collect();
    }
}

impl FromIterator<(SymbolId, Option<DefinitionId>)> for Targets {
    fn from_iter<I: IntoIterator<Item = (SymbolId, Option<DefinitionId>)>>(targets: I) -> Self {
        let mut all = Self::default();
        targets.into_iter().for_each(|(symbol, found)| all.push(symbol, found));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;

    #[test]
    fn targets_come_back_in_their_order_with_what_defines_them() {
        let mut state = State::default();
        let (one, other) = (state.add_library("one"), state.add_library("other"));
        let found = [
            None,
            Some((one, EntryId(3))),
            Some((one, EntryId(0))),
            Some((other, EntryId(3))),
            None,
            None,
            Some((one, EntryId(7))),
        ];
        let all: Vec<_> = (5..).map(SymbolId::from_index).zip(found).collect();
        let targets: Targets = all.iter().copied().collect();
        assert_eq!((targets.iter().collect::<Vec<_>>(), targets.len()), (all, 7));
        assert_eq!(targets.libraries.len(), 5);
        assert_eq!(Targets::default().iter().count(), 0);
    }
}
