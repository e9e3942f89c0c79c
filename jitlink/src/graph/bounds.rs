//! Bounds of sections: `__start_x` and `__stop_x`, which the linker defines.
//!
//! They are those of the graph's own sections named `x`, as in JITLink: each object of a link sees only its own. Where none of
//! these is left, both bounds are one and the same address of the graph.

use hashbrown::{HashMap, HashSet};

use super::layout::{Item, Part};
use super::needs::need;
use super::{BlockId, Definition, LinkGraph, SymbolId};
use crate::Result;
use crate::elf::View;
use crate::memory::Lifetime;

/// A reference to a bound of the sections of a name.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    symbol: SymbolId,
    section: Vec<u8>,
    is_start: bool,
}

/// The blocks between bounds: for each name those that have a byte.
#[derive(Default)]
pub(super) struct Bounded {
    /// For each name the index of its blocks.
    names: HashMap<Vec<u8>, usize>,
    pub(super) items: Vec<Vec<Item>>,
    pub(super) blocks: HashSet<BlockId>,
}

/// The sections that a symbol of this name is a bound of, and whether it is the start.
pub(super) fn bounded_section(name: &[u8]) -> Option<(&[u8], bool)> {
    match name.strip_prefix(b"__start_") {
        Some(section) => Some((section, true)),
        None => Some((name.strip_prefix(b"__stop_")?, false)),
    }
}

impl LinkGraph {
    /// Notes which of these undefined symbols are bounds of sections of this graph.
    pub(super) fn find_bounds(&mut self, symbols: &[(SymbolId, Vec<u8>)]) {
        let bound = |(symbol, name): &(SymbolId, Vec<u8>)| {
            let (section, is_start) = bounded_section(name)?;
            Some(Bound { symbol: *symbol, section: section.to_vec(), is_start })
        };
        let mut bounds: Vec<Bound> = symbols.iter().filter_map(bound).collect();
        if !bounds.is_empty() {
            let names = self.blocks_by_name();
            bounds.retain(|bound| names.contains_key(&*bound.section));
        }
        for bound in &bounds {
            self.tables.needs.insert(bound.symbol, need::OWN);
        }
        self.tables.bounds = bounds;
    }

    /// The blocks of each name of a section, live or not, but for those that never have memory.
    pub(super) fn blocks_by_name(&self) -> HashMap<&[u8], Vec<BlockId>> {
        let mut names: HashMap<&[u8], Vec<BlockId>> = HashMap::new();
        for block in self.blocks() {
            let section = self.section(block.section);
            if section.lifetime != Lifetime::NoAlloc {
                names.entry(section.name).or_default().push(block.id);
            }
        }
        names
    }

    /// The blocks that are to lie together, without anything between them.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if those of one name cannot.
    pub(super) fn bounded(&self, view: View<'_>) -> Result<Bounded> {
        let mut bounded = Bounded::default();
        if self.tables.bounds.is_empty() {
            return Ok(bounded);
        }
        let blocks = self.blocks_by_name();
        for Bound { section, .. } in &self.tables.bounds {
            if bounded.names.contains_key(section) {
                continue;
            }
            let blocks = blocks.get(&**section).map_or(&[][..], Vec::as_slice);
            let items = blocks.iter().filter_map(|block| self.item(view, *block));
            let items: Vec<Item> = items.filter(|item| item.size > 0).collect();
            if !items.is_empty() && !lie_together(&items) {
                let name = String::from_utf8_lossy(section);
                return Err(self.unsupported(format!(
                    "its sections named {name} cannot lie together, as __start_{name} and __stop_{name} want: they differ in \
                     protection or content, or are thread-local"
                )));
            }
            bounded.names.insert(section.clone(), bounded.items.len());
            bounded.blocks.extend(items.iter().map(|item| item.id));
            bounded.items.push(items);
        }
        Ok(bounded)
    }

    /// Defines the bounds, once the blocks have their places.
    pub(super) fn define_bounds(&mut self, view: View<'_>, bounded: &Bounded) {
        let bounds = std::mem::take(&mut self.tables.bounds);
        for Bound { symbol, section, is_start } in &bounds {
            let items = &bounded.items[bounded.names[section]];
            let definition = match (items.first(), items.last()) {
                (Some(first), _) if *is_start => Definition::Block(first.id, 0),
                (_, Some(last)) => Definition::Block(last.id, last.size),
                _ => self.anywhere(view),
            };
            self.redefine(*symbol, definition);
        }
        self.tables.bounds = bounds;
    }

    /// An address within reach, of no meaning.
    fn anywhere(&self, view: View<'_>) -> Definition {
        let placed = |id: &BlockId| self.item(view, *id).is_some_and(|item| item.size > 0);
        match self.ids().find(placed) {
            Some(block) => Definition::Block(block, 0),
            None => Definition::Absolute(0),
        }
    }
}

/// Whether layout has one place for all of them.
fn lie_together(items: &[Item]) -> bool {
    let place = |item: &Item| (item.part, item.protection, item.lifetime);
    matches!(items[0].part, Part::Content | Part::Zero)
        && items.iter().all(|item| place(item) == place(&items[0]))
}
