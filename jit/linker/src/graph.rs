//! The link graph: one object during its link.
//!
//! A [`LinkGraph`] has sections, blocks of content in them, symbols and edges. A symbol names a
//! place in a block or outside of the graph. An edge says that a field in a block is
//! computed from a symbol.
//!
//! The graph corresponds to JITLink's `LinkGraph`, with one difference that governs everything
//! here: it is an *index over the object's bytes*. A section of the object is one block, a symbol
//! an entry of the object's symbol table, an edge one of its relocations, all read in place. Only
//! additions and changes by passes are stored beside them. So a graph costs a few bytes for each
//! section, whatever the number of symbols and relocations, and every step takes time in proportion
//! to the data that it reads.
//!
//! `__start_x` and `__stop_x` are the bounds of the sections `x` of all objects that are linked
//! together.

mod addresses;
mod blocks;
mod bounds;
mod build;
mod display;
mod edit;
mod externals;
mod fixup;
mod fragments;
mod frames;
mod layout;
mod needs;
mod prune;
mod references;
mod symbol;
mod tables;

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use object::elf;

use crate::elf::{ElfObject, LE, Relocation, View};
use crate::memory::{Lifetime, Protection, WorkingMemory};
use crate::{Architecture, Error, Place};

use blocks::{NO_SEGMENT, ObjectBlocks};
pub(crate) use bounds::bounded_section;
pub use edit::{Content, NewSymbol};
pub use symbol::{Definition, Linkage, Scope, Symbol};

pub(crate) use externals::{External, ExternalKind, Externals, Reach, ThreadLocalPlace, TlsLayout};
pub(crate) use layout::Segment;
pub(crate) use prune::Pruning;
pub use tables::TableEntry;

/// A section of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectionId(u32);

/// A block of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u32);

/// A symbol of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(u32);

/// The meaning of an edge: the number of an ELF relocation of the graph's architecture, or
/// [`EdgeKind::KEEP_ALIVE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeKind(pub u32);

impl SymbolId {
    pub(crate) fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// Returns the symbol's index in the graph.
    pub(crate) fn index(self) -> u32 {
        self.0
    }
}

impl EdgeKind {
    /// An edge without a field: the target lives when the block does (JITLink's `Edge::KeepAlive`).
    pub const KEEP_ALIVE: Self = Self(u32::MAX);
}

/// A field of a block that is computed from a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The field's offset in bytes from the start of the block.
    pub offset: u64,
    /// The field's computation.
    pub kind: EdgeKind,
    /// The symbol from which the field is computed.
    pub target: SymbolId,
    /// A number that is added to the symbol's value.
    pub addend: i64,
}

/// A section: a view, made on demand.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// The section's identifier in the graph.
    pub id: SectionId,
    /// The section's name; not UTF-8 in a hostile object.
    pub name: &'a [u8],
    /// The executing side's permitted accesses.
    pub protection: Protection,
    /// The lifetime of the section's memory.
    pub lifetime: Lifetime,
    /// Whether it holds the initial values of thread-local variables.
    pub thread_local: bool,
    /// Whether its content is zeroes that are not in the object.
    pub zero_fill: bool,
    /// Alignment in bytes, a power of two.
    pub alignment: u64,
}

/// A block: a view, made on demand.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// The block's identifier in the graph.
    pub id: BlockId,
    /// The block's section.
    pub section: SectionId,
    /// The block's size in bytes.
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub alignment: u64,
    /// Whether its content is zeroes that are not stored.
    pub zero_fill: bool,
    /// Whether it will be in the linked code.
    pub live: bool,
    /// The block's address on the executing side: 0 before allocation and for
    /// [`Lifetime::NoAlloc`].
    pub address: u64,
}

/// An object during its link. See the [module](self).
pub struct LinkGraph {
    object: ElfObject,
    base: ObjectBlocks,
    /// The object's blocks with frames for unwinding, ascending.
    frames: Vec<BlockId>,
    added_sections: Vec<edit::AddedSection>,
    added_blocks: Vec<edit::AddedBlock>,
    added_symbols: Vec<edit::AddedSymbol>,
    /// Edges of blocks of the object that a pass has changed.
    edited_edges: HashMap<u32, Vec<Edge>>,
    /// Content of blocks of the object that a pass has changed.
    edited_content: HashMap<u32, Vec<u8>>,
    /// Symbols of the object with another definition than the object's.
    redefined: HashMap<u32, Definition>,
    lifetimes: HashMap<u32, Lifetime>,
    /// The blocks that replace the object's frames, ascending.
    compacted_frames: Vec<BlockId>,
    has_thread_locals: bool,
    /// The block that `__dso_handle` stands for in this graph.
    dso_handle: Option<BlockId>,
    properties: u32,
    segments: Vec<Segment>,
    tables: tables::Tables,
    /// Working memory, present from allocation to finalization.
    memory: Option<WorkingMemory>,
}

/// The edges of a block, in the order of the object.
#[derive(Clone)]
pub struct Edges<'a>(EdgesIn<'a>);

#[derive(Clone)]
enum EdgesIn<'a> {
    Object(std::slice::Iter<'a, Relocation>),
    Graph(std::slice::Iter<'a, Edge>),
    Frames(frames::RetainedEdges<'a>),
}

impl Iterator for Edges<'_> {
    type Item = Edge;

    #[inline]
    fn next(&mut self) -> Option<Edge> {
        match &mut self.0 {
            EdgesIn::Object(relocations) => relocations.next().map(edge_of),
            EdgesIn::Graph(edges) => edges.next().copied(),
            EdgesIn::Frames(edges) => edges.next(),
        }
    }
}

#[inline]
fn edge_of(relocation: &Relocation) -> Edge {
    let info = relocation.r_info.get(LE);
    Edge {
        offset: relocation.r_offset.get(LE),
        kind: EdgeKind(info as u32),
        target: SymbolId((info >> 32) as u32),
        addend: relocation.r_addend.get(LE),
    }
}

impl LinkGraph {
    /// Returns the object's name, `archive(member)` for a member of an archive.
    pub fn name(&self) -> &Arc<str> {
        self.object.name()
    }

    /// Returns the instruction set of the object's code.
    pub fn architecture(&self) -> Architecture {
        self.object.architecture()
    }

    /// Returns the bytes of the object from which the graph was read.
    pub fn object_bytes(&self) -> &Bytes {
        self.object.bytes()
    }

    /// Returns the AND-combined features of the object's `.note.gnu.property`
    /// (`GNU_PROPERTY_X86_FEATURE_1_AND` or the AArch64 one); 0 without the note.
    pub fn property_features(&self) -> u32 {
        self.properties
    }

    /// Returns the sections that have blocks: the object's in its order, then the sections added by
    /// passes.
    pub fn sections(&self) -> impl Iterator<Item = Section<'_>> {
        let base = self.base.ids().map(|block| SectionId(block.0));
        let added = (0..self.added_sections.len()).map(|index| self.added_section_id(index));
        base.chain(added).map(|id| self.section(id))
    }

    /// Returns a section by its identifier.
    pub fn section(&self, id: SectionId) -> Section<'_> {
        if let Some(section) = self.added_section(id) {
            return section.view(id);
        }
        let view = self.object.view();
        let header = &view.sections[id.0 as usize];
        Section {
            id,
            name: view.section_name(header),
            protection: protection(view, header),
            lifetime: self.lifetime(id, header),
            thread_local: header.sh_flags.get(LE).contains(elf::SHF_TLS),
            zero_fill: header.sh_type.get(LE) == elf::SHT_NOBITS,
            alignment: header.sh_addralign.get(LE).max(1),
        }
    }

    /// Returns all blocks: the object's in the order of its sections, then the blocks added by
    /// passes.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        let added = (self.base.count()..self.id_count()).map(|id| BlockId(id as u32));
        self.base.ids().chain(added).map(|id| self.block(id))
    }

    /// Returns a block by its identifier.
    pub fn block(&self, id: BlockId) -> Block {
        let address = self.block_address(id);
        match self.base.state(id) {
            Some(state) => {
                let header = &self.object.view().sections[id.0 as usize];
                Block {
                    id,
                    section: SectionId(id.0),
                    size: header.sh_size.get(LE),
                    alignment: header.sh_addralign.get(LE).max(1),
                    zero_fill: header.sh_type.get(LE) == elf::SHT_NOBITS,
                    live: state.is_live(),
                    address,
                }
            }
            None => self.added_block(id).view(id, address),
        }
    }

    /// Returns the edges of a block.
    pub fn edges(&self, block: BlockId) -> Edges<'_> {
        self.edges_in(self.object.view(), block)
    }

    /// Returns the content of a block before fix-up, as given by the object or a pass; empty for
    /// zeroes.
    pub fn content(&self, block: BlockId) -> &[u8] {
        match self.base.state(block) {
            Some(_) => match self.edited_content.get(&block.0) {
                Some(content) => content,
                None => {
                    let view = self.object.view();
                    view.content(&view.sections[block.0 as usize])
                }
            },
            None => self.added_content(block),
        }
    }

    #[inline]
    fn content_in<'a>(&'a self, view: View<'a>, block: BlockId) -> &'a [u8] {
        match self.base.state(block) {
            Some(_) if self.edited_content.is_empty() => {
                view.content(&view.sections[block.0 as usize])
            }
            _ => self.content(block),
        }
    }

    /// Returns the address of a block that has memory.
    #[inline]
    fn live_address(&self, block: BlockId) -> Option<u64> {
        self.is_live(block).then(|| self.block_address(block))
    }

    #[inline]
    fn is_live(&self, block: BlockId) -> bool {
        match self.base.state(block) {
            Some(state) => state.is_live(),
            None => self.added_block(block).live,
        }
    }

    #[inline]
    fn edges_in<'a>(&'a self, view: View<'a>, block: BlockId) -> Edges<'a> {
        if self.base.state(block).is_none() {
            return self.added_edges(view, block);
        }
        if !self.edited_edges.is_empty()
            && let Some(edges) = self.edited_edges.get(&block.0)
        {
            return Edges(EdgesIn::Graph(edges.iter()));
        }
        Edges(EdgesIn::Object(self.base.relocations(view, block).iter()))
    }

    /// Returns the last block's number plus one. Some lower numbers have no block and are never
    /// live.
    fn id_count(&self) -> usize {
        self.base.count() + self.added_blocks.len()
    }

    /// Returns all numbers up to the last block's.
    fn ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (0..self.id_count() as u32).map(BlockId)
    }

    /// Returns whether a block's edges are the object's, in which no number means
    /// [`EdgeKind::KEEP_ALIVE`].
    fn has_edges_of_object(&self, block: BlockId) -> bool {
        self.base.state(block).is_some() && !self.edited_edges.contains_key(&block.0)
    }

    /// Returns ELF section index and address of each section of the object that has memory.
    pub fn section_addresses(&self) -> Vec<(usize, u64)> {
        let placed = |block: &BlockId| {
            self.base
                .state(*block)
                .is_some_and(|state| state.is_live() && state.segment() != NO_SEGMENT)
        };
        let blocks = self.base.ids().filter(placed);
        blocks.map(|block| (block.0 as usize, self.block_address(block))).collect()
    }

    #[inline]
    fn block_address(&self, block: BlockId) -> u64 {
        let (segment, placement) = self.position(block);
        self.segments
            .get(usize::from(segment))
            .map_or(0, |segment| segment.address + u64::from(placement))
    }

    fn lifetime(&self, id: SectionId, header: &crate::elf::Section) -> Lifetime {
        match self.lifetimes.get(&id.0) {
            Some(lifetime) => *lifetime,
            None if header.sh_flags.get(LE).contains(elf::SHF_ALLOC) => Lifetime::Standard,
            None => Lifetime::NoAlloc,
        }
    }

    /// Returns the place of an offset in a block, for errors.
    fn place(&self, block: BlockId, offset: u64) -> Place {
        let section = self.section(self.block(block).section);
        Place {
            file: self.name().to_string(),
            section: String::from_utf8_lossy(section.name).into_owned(),
            offset,
        }
    }

    fn malformed(&self, problem: impl Into<String>) -> Error {
        Error::Malformed { file: self.name().to_string(), problem: problem.into() }
    }

    fn unsupported(&self, problem: impl Into<String>) -> Error {
        Error::Unsupported { file: self.name().to_string(), problem: problem.into() }
    }

    fn relocation_name(&self, kind: EdgeKind) -> String {
        match self.architecture().relocation_name(kind.0) {
            Some(name) => name.to_owned(),
            None if kind == EdgeKind::KEEP_ALIVE => "keep-alive".to_owned(),
            None => format!("number {}", kind.0),
        }
    }
}

/// Returns the permitted accesses to a section of an object.
fn protection(view: View<'_>, header: &crate::elf::Section) -> Protection {
    let flags = header.sh_flags.get(LE);
    if flags.contains(elf::SHF_EXECINSTR) {
        Protection::ReadExecute
    } else if !flags.contains(elf::SHF_WRITE)
        || flags.contains(elf::SHF_TLS)
        || is_relro(view.section_name(header))
    {
        Protection::Read
    } else {
        Protection::ReadWrite
    }
}

/// Returns whether a section is written by the linker only: data with addresses, constant once they
/// are known.
fn is_relro(name: &[u8]) -> bool {
    [&b".data.rel.ro"[..], b".init_array", b".fini_array", b".preinit_array", b".ctors", b".dtors"]
        .iter()
        .any(|prefix| is_kind(name, prefix))
}

/// Returns whether a section is named `kind`, or `kind.` with a suffix.
pub(crate) fn is_kind(name: &[u8], kind: &[u8]) -> bool {
    name.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
}
