//! Symbols of a graph.

use object::elf;

use super::{BlockId, LinkGraph, SymbolId};
use crate::elf::{Home, LE, View};

/// A symbol: a view, made when asked for.
#[derive(Debug, Clone, Copy)]
pub struct Symbol<'a> {
    /// Its place in the graph.
    pub id: SymbolId,
    /// Its name; a section's symbol has the section's. Not UTF-8 in a hostile object.
    pub name: &'a [u8],
    /// Where it is.
    pub definition: Definition,
    /// Its size in bytes, 0 if not known.
    pub size: u64,
    /// Whether another definition may take its place, or whether it may stay undefined.
    pub linkage: Linkage,
    /// Who sees it.
    pub scope: Scope,
    /// Whether it is a function.
    pub callable: bool,
    /// Whether it is a thread-local variable.
    pub thread_local: bool,
    /// Whether it is a function that returns the address to use (IFUNC).
    pub indirect: bool,
    /// Whether it stands for a whole section, or names a file: not something that a program refers to by name.
    pub section_symbol: bool,
}

/// Where a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definition {
    /// In a block, so many bytes after its start.
    Block(BlockId, u64),
    /// At an address.
    Absolute(u64),
    /// Somewhere else, or in a part of the object that is not used.
    External,
}

/// Strong or weak (JITLink's `Linkage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// The only definition of its name; as a reference, it must be defined.
    Strong,
    /// One of several; as a reference, it may stay undefined and is null then.
    Weak,
}

/// Who sees a symbol (JITLink's `Scope`).
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
    /// All symbols: the object's in its order without the null symbol, then those that passes have added.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol<'_>> {
        // The first entry of an object's symbol table is the null symbol.
        let first = u32::from(!self.object.view().symbols.is_empty());
        (first..self.symbol_count()).map(|id| self.symbol(SymbolId(id)))
    }

    /// The first symbol of a name that is not a section's.
    pub fn symbol_named(&self, name: &[u8]) -> Option<Symbol<'_>> {
        self.symbols().find(|symbol| symbol.name == name && !symbol.section_symbol)
    }

    /// A symbol by its place.
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
            // A definition that others have is no weak reference: it must be somewhere.
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

    /// Whether the object defines a symbol and the graph does not.
    fn is_lost(&self, view: View<'_>, id: SymbolId) -> bool {
        matches!(view.home(id.0), Home::Section(_) | Home::Absolute)
            && match self.definition_in(view, id) {
                Definition::External => true,
                Definition::Block(block, _) => self.is_discarded(block),
                Definition::Absolute(_) => false,
            }
    }

    /// The address of a symbol: its block's plus its offset, once allocated; `None` for one that is not in the graph.
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
        match view.home(id.0) {
            // The null symbol: a relocation against it has only its addend.
            Home::Undefined if id.0 == 0 => Definition::Absolute(0),
            Home::Undefined | Home::Common => Definition::External,
            Home::Absolute => Definition::Absolute(symbol.st_value.get(LE)),
            Home::Section(section) if self.base.contains(section) => {
                Definition::Block(BlockId(section), symbol.st_value.get(LE))
            }
            Home::Section(_) => Definition::External,
        }
    }
}
