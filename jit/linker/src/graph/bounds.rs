//! Bounds of sections: `__start_x` and `__stop_x`, which the linker defines.
//!
//! The bounds enclose the sections named `x` of all objects that are linked together. The session
//! finds the graphs with such sections; a graph without others of the name defines its bounds
//! alone. If no such section is left, both bounds are one address of the graph.

use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use super::layout::{Item, Part, Segment};
use super::needs::need;
use super::{BlockId, Definition, LinkGraph, SymbolId, is_kind};
use crate::Result;
use crate::elf::View;
use crate::memory::{Lifetime, Protection};

/// A reference to a bound of the sections of a name.
#[derive(Debug, Clone)]
pub(super) struct BoundReference {
    symbol: SymbolId,
    section: Vec<u8>,
    is_start: bool,
}

/// Sections of a name that lie together with those sections of other graphs.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    section: Vec<u8>,
    /// Group of their segment.
    group: u32,
}

/// The blocks between bounds: for each name, its nonempty blocks.
#[derive(Default)]
pub(super) struct BoundedBlocks {
    /// Index of a name's blocks in `items`.
    names: HashMap<Vec<u8>, usize>,
    pub(super) items: Vec<Vec<Item>>,
    /// Groups of the blocks that lie together with other graphs' blocks.
    pub(super) groups: HashMap<BlockId, u32>,
    pub(super) blocks: HashSet<BlockId>,
}

/// Returns the name of the sections of which this symbol is a bound, and whether it is the start.
pub(crate) fn bounded_section(name: &[u8]) -> Option<(&[u8], bool)> {
    match name.strip_prefix(b"__start_") {
        Some(section) => Some((section, true)),
        None => Some((name.strip_prefix(b"__stop_")?, false)),
    }
}

impl LinkGraph {
    /// Records the bounds of sections of this graph among these undefined symbols.
    pub(super) fn find_bounds(&mut self, symbols: &[(SymbolId, Vec<u8>)]) {
        let bound = |(symbol, name): &(SymbolId, Vec<u8>)| {
            let (section, is_start) = bounded_section(name)?;
            Some(BoundReference { symbol: *symbol, section: section.to_vec(), is_start })
        };
        let mut bounds: Vec<BoundReference> = symbols.iter().filter_map(bound).collect();
        if !bounds.is_empty() {
            let names = self.blocks_by_name();
            bounds.retain(|bound| names.contains_key(&*bound.section));
        }
        for bound in &bounds {
            self.tables.needs.insert(bound.symbol, need::OWN);
        }
        self.tables.bounds = bounds;
    }

    /// Returns the blocks of each section name, live or not, except for blocks that never have
    /// memory.
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

    /// Returns the blocks that must lie together, without anything between them.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the blocks of one name cannot.
    pub(super) fn bounded(&self, view: View<'_>) -> Result<BoundedBlocks> {
        let mut bounded = BoundedBlocks::default();
        let (bounds, shared) = (&self.tables.bounds, &self.tables.shared);
        if bounds.is_empty() && shared.is_empty() {
            return Ok(bounded);
        }
        let blocks = self.blocks_by_name();
        let names = shared.iter().map(|shared| (&shared.section, shared.group));
        for (section, group) in names.chain(bounds.iter().map(|bound| (&bound.section, 0))) {
            if bounded.names.contains_key(section) {
                continue;
            }
            let blocks = blocks.get(&**section).map_or(&[][..], Vec::as_slice);
            let items = blocks.iter().filter_map(|block| self.item(view, *block));
            let items: Vec<Item> = items.filter(|item| item.size > 0).collect();
            if !items.is_empty() && !lie_together(&items) {
                let name = String::from_utf8_lossy(section);
                return Err(self.unsupported(format!(
                    "its sections named {name} cannot lie together, as __start_{name} and __stop_{name} require: they differ in \
                     protection or content, or are thread-local"
                )));
            }
            bounded.names.insert(section.clone(), bounded.items.len());
            bounded.blocks.extend(items.iter().map(|item| item.id));
            if group != 0 {
                bounded.groups.extend(items.iter().map(|item| (item.id, group)));
            }
            bounded.items.push(items);
        }
        Ok(bounded)
    }

    /// Returns the names of the graph's sections with referenced bounds. Requires [`Self::scan`].
    pub(crate) fn bounded_names(&self) -> impl Iterator<Item = &[u8]> {
        self.tables.bounds.iter().map(|bound| &*bound.section)
    }

    /// Returns the kind of memory of the graph's sections with these names. Empty sections do not
    /// count.
    pub(crate) fn kinds_of_sections<V>(
        &self,
        names: &HashMap<Vec<u8>, V>,
    ) -> HashMap<Vec<u8>, (Protection, Lifetime)> {
        let view = self.object.view();
        let blocks = self.blocks().filter(|block| block.live && block.size > 0);
        let named = blocks.map(|block| (self.section(block.section).name, block.id));
        named
            .filter(|(name, _)| names.contains_key(*name))
            .filter_map(|(name, block)| Some((name.to_vec(), self.item(view, block)?)))
            .map(|(name, item)| (name, (item.protection, item.lifetime)))
            .collect()
    }

    /// Lets the graph's sections of a name lie together with other graphs' sections, in segments of
    /// a group. Must precede layout.
    pub(crate) fn share_sections(&mut self, name: &[u8], group: u32) {
        self.tables.shared.push(Shared { section: name.to_vec(), group });
    }

    /// Returns the names of the graph's nonempty sections of a kind: named `kind`, or `kind.` with
    /// a suffix.
    pub(crate) fn section_names_of_kind(&self, kind: &str) -> impl Iterator<Item = Vec<u8>> {
        let blocks = self.blocks().filter(|block| block.live && block.size > 0);
        let names = blocks.map(|block| self.section(block.section).name);
        names.filter(move |name| is_kind(name, kind.as_bytes())).map(<[u8]>::to_vec)
    }

    /// Marks an undefined symbol as defined in the batch, so that it needs no entries. Must precede
    /// layout.
    pub(crate) fn define_in_batch(&mut self, symbol: SymbolId) {
        self.tables.needs.insert(symbol, need::OWN);
    }

    /// Lets the graph's zeroes lie together with other graphs' zeroes, behind all data. Must
    /// precede layout.
    pub(crate) fn separate_zeroes(&mut self) {
        self.tables.separates_zeroes = true;
    }

    /// Returns the graph's segments, once allocated.
    pub(crate) fn placed_segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }

    /// Makes an undefined symbol a bound of sections that only other graphs have. Must precede
    /// layout.
    pub(crate) fn bound_others(&mut self, symbol: SymbolId) {
        let name = self.symbol(symbol).name;
        let Some((section, is_start)) = bounded_section(name) else { return };
        let section = section.to_vec();
        self.tables.needs.insert(symbol, need::OWN);
        self.tables.bounds.push(BoundReference { symbol, section, is_start });
    }

    /// Returns the address range of the graph's part of a group, once allocated.
    pub(crate) fn range_of_group(&self, group: u32) -> Option<Range<u64>> {
        self.segments.iter().find(|segment| segment.group == group).map(Segment::range)
    }

    /// Sets the address range of the sections of a name that several graphs share.
    pub(crate) fn define_shared_bounds(&mut self, name: &[u8], range: &Range<u64>) {
        let bounds = std::mem::take(&mut self.tables.bounds);
        for bound in bounds.iter().filter(|bound| bound.section == name) {
            let address = if bound.is_start { range.start } else { range.end };
            self.redefine(bound.symbol, Definition::Absolute(address));
        }
        self.tables.bounds = bounds;
    }

    /// Defines the bounds, once the blocks have their places.
    pub(super) fn define_bounds(&mut self, view: View<'_>, bounded: &BoundedBlocks) {
        let bounds = std::mem::take(&mut self.tables.bounds);
        for BoundReference { symbol, section, is_start } in &bounds {
            let Some(index) = bounded.names.get(section) else { continue };
            let items = &bounded.items[*index];
            let definition = match (items.first(), items.last()) {
                (Some(first), _) if *is_start => Definition::Block(first.id, 0),
                (_, Some(last)) => Definition::Block(last.id, last.size),
                _ => self.anywhere(view),
            };
            self.redefine(*symbol, definition);
        }
        self.tables.bounds = bounds;
    }

    /// Returns an arbitrary address within reach.
    fn anywhere(&self, view: View<'_>) -> Definition {
        let placed = |id: &BlockId| self.item(view, *id).is_some_and(|item| item.size > 0);
        match self.ids().find(placed) {
            Some(block) => Definition::Block(block, 0),
            None => Definition::Absolute(0),
        }
    }
}

/// Returns whether layout can place all items together.
fn lie_together(items: &[Item]) -> bool {
    let place = |item: &Item| (item.part, item.protection, item.lifetime);
    matches!(items[0].part, Part::Content | Part::Zero)
        && items.iter().all(|item| place(item) == place(&items[0]))
}
