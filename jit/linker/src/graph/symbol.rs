//! Symbols of a graph.

use object::elf;

use super::{BlockId, LinkGraph, SymbolId};
use crate::elf::{DefinitionPlace, LE, View};

/// A symbol: a view, made on demand.
#[derive(Debug, Clone, Copy)]
pub struct Symbol<'a> {
    /// The symbol's identifier in the graph.
    pub id: SymbolId,
    /// The symbol's name; for a section's symbol, the section's name. Not UTF-8 in a hostile
    /// object.
    pub name: &'a [u8],
    /// The symbol's definition.
    pub definition: Definition,
    /// Size in bytes, 0 if not known.
    pub size: u64,
    /// Whether another definition may replace it, or whether it may stay undefined.
    pub linkage: Linkage,
    /// The symbol's visibility.
    pub scope: Scope,
    /// Whether it is a function.
    pub callable: bool,
    /// Whether it is a thread-local variable.
    pub thread_local: bool,
    /// Whether it is a function that returns the address to use (IFUNC).
    pub indirect: bool,
    /// Whether it stands for a whole section or names a file, and so is not referred to by name.
    pub section_symbol: bool,
}

/// The definition of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// A place in a block, in bytes after its start.
    Block(BlockId, u64),
    /// An address.
    Absolute(u64),
    /// A definition in another graph, or in an unused part of the object.
    External,
}

/// Strong or weak (JITLink's `Linkage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// The only definition of its name; as a reference, it must be defined.
    Strong,
    /// A definition among several; as a reference, it may stay undefined and is null then.
    Weak,
}

/// The visibility of a symbol (JITLink's `Scope`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All libraries.
    Default,
    /// The library that defines it.
    Hidden,
    /// The object that defines it.
    Local,
}

impl LinkGraph {
    /// Returns all symbols: the object's in its order without the null symbol, then the symbols
    /// added by passes.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol<'_>> {
        // The first entry of an object's symbol table is the null symbol.
        let first = u32::from(!self.object.view().symbols.is_empty());
        (first..self.symbol_count()).map(|id| self.symbol(SymbolId(id)))
    }

    /// Returns the first symbol of a name that is not a section's symbol.
    pub fn symbol_named(&self, name: &[u8]) -> Option<Symbol<'_>> {
        self.symbols().find(|symbol| symbol.name == name && !symbol.section_symbol)
    }

    /// Returns a symbol by its identifier.
    pub fn symbol(&self, id: SymbolId) -> Symbol<'_> {
        let view = self.object.view();
        if id.0 as usize >= view.symbols.len() {
            return self.added_symbol(id).view(id);
        }
        let symbol = &view.symbols[id.0 as usize];
        let kind = symbol.st_type();
        Symbol {
            id,
            name: view.symbol_name(id.0),
            definition: self.definition_in(view, id),
            size: symbol.st_size.get(LE),
            // A reference to a definition that another object keeps is not weak: the definition
            // must exist.
            linkage: if symbol.st_bind() == elf::STB_WEAK && !self.is_lost(view, id) {
                Linkage::Weak
            } else {
                Linkage::Strong
            },
            scope: match (symbol.st_bind(), symbol.st_visibility()) {
                (elf::STB_LOCAL, _) => Scope::Local,
                (_, elf::STV_HIDDEN | elf::STV_INTERNAL) => Scope::Hidden,
                _ => Scope::Default,
            },
            callable: kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC,
            thread_local: kind == elf::STT_TLS,
            indirect: kind == elf::STT_GNU_IFUNC,
            section_symbol: kind == elf::STT_SECTION || kind == elf::STT_FILE,
        }
    }

    /// Returns whether the object defines a symbol and the graph does not.
    fn is_lost(&self, view: View<'_>, id: SymbolId) -> bool {
        matches!(
            view.definition_place(id.0),
            DefinitionPlace::Section(_) | DefinitionPlace::Absolute
        ) && match self.definition_in(view, id) {
            Definition::External => true,
            Definition::Block(block, _) => self.is_discarded(block),
            Definition::Absolute(_) => false,
        }
    }

    /// Returns the address of a symbol, its block's plus its offset, once allocated; `None` for a
    /// symbol that is not in the graph.
    pub fn symbol_address(&self, id: SymbolId) -> Option<u64> {
        match self.definition_in(self.object.view(), id) {
            Definition::Block(block, offset) => {
                Some(self.block_address(block).wrapping_add(offset))
            }
            Definition::Absolute(value) => Some(value),
            Definition::External => None,
        }
    }

    pub(super) fn symbol_count(&self) -> u32 {
        (self.object.view().symbols.len() + self.added_symbols.len()) as u32
    }

    #[inline]
    pub(super) fn definition_in(&self, view: View<'_>, id: SymbolId) -> Definition {
        let Some(symbol) = view.symbols.get(id.0 as usize) else {
            return self.added_symbol(id).definition;
        };
        if !self.redefined.is_empty()
            && let Some(definition) = self.redefined.get(&id.0)
        {
            return *definition;
        }
        match view.definition_place(id.0) {
            // The null symbol: a relocation against it has only its addend.
            DefinitionPlace::Undefined if id.0 == 0 => Definition::Absolute(0),
            DefinitionPlace::Undefined | DefinitionPlace::Common => Definition::External,
            DefinitionPlace::Absolute => Definition::Absolute(symbol.st_value.get(LE)),
            DefinitionPlace::Section(section) if self.base.contains(section) => {
                Definition::Block(BlockId(section), symbol.st_value.get(LE))
            }
            DefinitionPlace::Section(_) => Definition::External,
        }
    }
}
