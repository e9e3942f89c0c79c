//! The changes of a graph by passes, and the construction of graphs by hand.

use std::sync::Arc;

use hashbrown::HashMap;

use super::frames::RetainedFrames;
use super::{
    Block, BlockId, Definition, Edge, Edges, EdgesIn, LinkGraph, Linkage, NO_SEGMENT, Scope,
    Section, SectionId, Symbol, SymbolId,
};
use crate::Architecture;
use crate::elf::{ElfObject, View};
use crate::memory::{Lifetime, Protection};

/// The content of an added block.
#[derive(Debug, Clone)]
pub enum Content {
    /// Given bytes.
    Bytes(Vec<u8>),
    /// A number of zero bytes, which are not stored.
    Zero(u64),
}

/// A symbol to add.
#[derive(Debug, Clone)]
pub struct NewSymbol<'a> {
    /// The symbol's name.
    pub name: &'a str,
    /// The symbol's definition.
    pub definition: Definition,
    /// Size in bytes, 0 if not known.
    pub size: u64,
    /// Strong or weak.
    pub linkage: Linkage,
    /// The symbol's visibility.
    pub scope: Scope,
    /// Whether it is a function.
    pub callable: bool,
}

pub(super) struct AddedSection {
    name: Arc<str>,
    protection: Protection,
    lifetime: Lifetime,
}

pub(super) struct AddedBlock {
    section: SectionId,
    content: Content,
    alignment: u64,
    edges: Vec<Edge>,
    /// The source of content and edges until one of them is changed.
    pub(super) frames: Option<Box<RetainedFrames>>,
    pub(super) live: bool,
    pub(super) segment: u8,
    pub(super) placement: u32,
}

pub(super) struct AddedSymbol {
    name: Box<str>,
    pub(super) definition: Definition,
    size: u64,
    linkage: Linkage,
    scope: Scope,
    callable: bool,
}

/// Additions.
impl LinkGraph {
    /// Creates an empty graph, to be filled by hand.
    pub fn new(name: &str, architecture: Architecture) -> Self {
        Self::over(ElfObject::empty(name, architecture))
    }

    /// Adds a section without blocks.
    pub fn add_section(
        &mut self,
        name: &str,
        protection: Protection,
        lifetime: Lifetime,
    ) -> SectionId {
        self.added_sections.push(AddedSection { name: name.into(), protection, lifetime });
        self.added_section_id(self.added_sections.len() - 1)
    }

    /// Adds a live block at the end of an added section. `alignment` is a power of two, in bytes.
    pub fn add_block(&mut self, section: SectionId, content: Content, alignment: u64) -> BlockId {
        debug_assert!(alignment.is_power_of_two());
        self.added_blocks.push(AddedBlock {
            section,
            content,
            alignment,
            edges: Vec::new(),
            frames: None,
            live: true,
            segment: NO_SEGMENT,
            placement: 0,
        });
        BlockId((self.id_count() - 1) as u32)
    }

    /// Adds a live block of frames.
    pub(super) fn add_frames(
        &mut self,
        section: SectionId,
        frames: RetainedFrames,
        alignment: u64,
    ) -> BlockId {
        let block = self.add_block(section, Content::Bytes(Vec::new()), alignment);
        self.added_block_mut(block).frames = Some(Box::new(frames));
        block
    }

    /// Adds a symbol.
    pub fn add_symbol(&mut self, symbol: NewSymbol<'_>) -> SymbolId {
        let NewSymbol { name, definition, size, linkage, scope, callable } = symbol;
        self.added_symbols.push(AddedSymbol {
            name: name.into(),
            definition,
            size,
            linkage,
            scope,
            callable,
        });
        SymbolId(self.symbol_count() - 1)
    }

    /// Adds an edge after the other edges of a block.
    pub fn add_edge(&mut self, block: BlockId, edge: Edge) {
        match (block.0 as usize).checked_sub(self.base.count()) {
            Some(_) => self.own_block(block).edges.push(edge),
            None => {
                if !self.edited_edges.contains_key(&block.0) {
                    let copy = self.edges(block).collect();
                    self.edited_edges.insert(block.0, copy);
                }
                self.edited_edges.get_mut(&block.0).expect("inserted above").push(edge);
            }
        }
    }
}

/// Changes.
impl LinkGraph {
    /// Replaces the edges of a block.
    pub fn set_edges(&mut self, block: BlockId, edges: Vec<Edge>) {
        match (block.0 as usize).checked_sub(self.base.count()) {
            Some(_) => self.own_block(block).edges = edges,
            None => _ = self.edited_edges.insert(block.0, edges),
        }
    }

    /// Puts a block into the linked code, or takes it out.
    pub fn set_live(&mut self, block: BlockId, live: bool) {
        match (block.0 as usize).checked_sub(self.base.count()) {
            Some(added) => self.added_blocks[added].live = live,
            None => self.base.set_live(block, live),
        }
    }

    /// Raises the alignment of a common symbol's block to at least `alignment` bytes; ignores
    /// absurd values.
    pub(crate) fn align_common(&mut self, symbol: SymbolId, alignment: u64) {
        let Some(Definition::Block(block, _)) = self.redefined.get(&symbol.0).copied() else {
            return;
        };
        if let Some(block) = (block.0 as usize).checked_sub(self.base.count())
            && alignment.is_power_of_two()
            && alignment <= super::build::MAX_ALIGNMENT
        {
            let block = &mut self.added_blocks[block];
            block.alignment = block.alignment.max(alignment);
        }
    }

    /// Changes the lifetime of a section's memory. Must precede allocation.
    pub fn set_lifetime(&mut self, section: SectionId, lifetime: Lifetime) {
        match self.added_index(section) {
            Some(added) => self.added_sections[added].lifetime = lifetime,
            None => _ = self.lifetimes.insert(section.0, lifetime),
        }
    }

    /// Defines a symbol elsewhere.
    pub fn redefine(&mut self, symbol: SymbolId, definition: Definition) {
        match (symbol.0 as usize).checked_sub(self.object.view().symbols.len()) {
            Some(added) => self.added_symbols[added].definition = definition,
            None => _ = self.redefined.insert(symbol.0, definition),
        }
    }

    /// Returns the content of a block, to be changed; empty for zeroes. Before fix-up and for
    /// [`Lifetime::NoAlloc`] the content is a copy in the graph, made now; afterwards it is the
    /// working memory, with final content.
    pub fn content_mut(&mut self, block: BlockId) -> &mut [u8] {
        let Block { size, zero_fill, live, .. } = self.block(block);
        let (segment, placement) = self.position(block);
        if zero_fill || !live {
            return &mut [];
        }
        if segment == NO_SEGMENT || !self.tables.fixed_up {
            return self.own_content(block);
        }
        match &mut self.memory {
            Some(memory) => {
                &mut memory.segment(usize::from(segment))[placement as usize..][..size as usize]
            }
            None => &mut [],
        }
    }

    #[inline]
    pub(super) fn position(&self, block: BlockId) -> (u8, u32) {
        self.base.position(block).unwrap_or_else(|| {
            let block = self.added_block(block);
            (block.segment, block.placement)
        })
    }

    /// Returns the content of a block, not of zeroes, as bytes owned by the graph.
    pub(super) fn own_content(&mut self, block: BlockId) -> &mut Vec<u8> {
        if self.base.state(block).is_none() {
            return self.own_block(block).content.bytes_mut();
        }
        if !self.edited_content.contains_key(&block.0) {
            let copy = self.content(block).to_vec();
            self.edited_content.insert(block.0, copy);
        }
        self.edited_content.get_mut(&block.0).expect("inserted above")
    }
}

impl LinkGraph {
    /// Creates a graph over an object, without reading the object's tables.
    pub(super) fn over(object: ElfObject) -> Self {
        Self {
            object,
            base: Default::default(),
            frames: Vec::new(),
            added_sections: Vec::new(),
            added_blocks: Vec::new(),
            added_symbols: Vec::new(),
            edited_edges: HashMap::new(),
            edited_content: HashMap::new(),
            redefined: HashMap::new(),
            lifetimes: HashMap::new(),
            compacted_frames: Vec::new(),
            has_thread_locals: false,
            dso_handle: None,
            properties: 0,
            segments: Vec::new(),
            tables: Default::default(),
            memory: None,
        }
    }

    pub(super) fn added_section_id(&self, index: usize) -> SectionId {
        SectionId((self.base.count() + index) as u32)
    }

    pub(super) fn added_section(&self, id: SectionId) -> Option<&AddedSection> {
        self.added_index(id).map(|index| &self.added_sections[index])
    }

    /// Returns an added block, with content and edges of its own.
    fn own_block(&mut self, id: BlockId) -> &mut AddedBlock {
        if self.added_block(id).frames.is_some() {
            let (content, edges) = (self.content(id).to_vec(), self.edges(id).collect());
            let block = self.added_block_mut(id);
            (block.content, block.edges, block.frames) = (Content::Bytes(content), edges, None);
        }
        self.added_block_mut(id)
    }

    fn added_block_mut(&mut self, id: BlockId) -> &mut AddedBlock {
        &mut self.added_blocks[id.0 as usize - self.base.count()]
    }

    pub(super) fn added_content(&self, id: BlockId) -> &[u8] {
        let block = self.added_block(id);
        match &block.frames {
            Some(frames) => frames.content(self),
            None => block.content.bytes(),
        }
    }

    pub(super) fn added_edges<'a>(&'a self, view: View<'a>, id: BlockId) -> Edges<'a> {
        let block = self.added_block(id);
        Edges(match &block.frames {
            Some(frames) => EdgesIn::Frames(frames.edges(self, view)),
            None => EdgesIn::Graph(block.edges.iter()),
        })
    }

    pub(super) fn added_block(&self, id: BlockId) -> &AddedBlock {
        &self.added_blocks[id.0 as usize - self.base.count()]
    }

    pub(super) fn added_symbol(&self, id: SymbolId) -> &AddedSymbol {
        &self.added_symbols[id.0 as usize - self.object.view().symbols.len()]
    }

    fn added_index(&self, id: SectionId) -> Option<usize> {
        (id.0 as usize).checked_sub(self.base.count())
    }
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Zero(_) => &[],
        }
    }

    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zero(size) => *size,
        }
    }

    /// Returns the bytes; stored zeroes replace a [`Self::Zero`].
    fn bytes_mut(&mut self) -> &mut Vec<u8> {
        if let Self::Zero(size) = *self {
            *self = Self::Bytes(vec![0; size as usize]);
        }
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Zero(_) => unreachable!("made bytes above"),
        }
    }
}

impl AddedSection {
    pub(super) fn view(&self, id: SectionId) -> Section<'_> {
        Section {
            id,
            name: self.name.as_bytes(),
            protection: self.protection,
            lifetime: self.lifetime,
            thread_local: false,
            zero_fill: false,
            alignment: 1,
        }
    }
}

impl AddedBlock {
    pub(super) fn view(&self, id: BlockId, address: u64) -> Block {
        Block {
            id,
            section: self.section,
            size: match &self.frames {
                Some(frames) => frames.size.into(),
                None => self.content.size(),
            },
            alignment: self.alignment,
            zero_fill: matches!(self.content, Content::Zero(_)),
            live: self.live,
            address,
        }
    }
}

impl AddedSymbol {
    pub(super) fn view(&self, id: SymbolId) -> Symbol<'_> {
        Symbol {
            id,
            name: self.name.as_bytes(),
            definition: self.definition,
            size: self.size,
            linkage: self.linkage,
            scope: self.scope,
            callable: self.callable,
            thread_local: false,
            indirect: false,
            section_symbol: false,
        }
    }
}
