//! Pruning: the removal of blocks that no root reaches.

use hashbrown::HashMap;
use object::elf;

use super::bounds::bounded_section;
use super::fragments::FRAGMENTS;
use super::frames::FrameEdges;
use super::{BlockId, Definition, Edge, LinkGraph, SectionId, Symbol, SymbolId, is_kind};
use crate::Result;
use crate::elf::{LE, View};
use crate::memory::Lifetime;

/// The blocks reached so far. Roots can be added between the visits of other graphs.
pub(crate) struct Pruning {
    live: Vec<bool>,
    work: Vec<BlockId>,
    /// Pairs of a block and a block that lives when the first does; ascending.
    companions: Vec<(BlockId, BlockId)>,
    /// Edges of each block with frames.
    frame_edges: Vec<Vec<Edge>>,
    /// The frames of each function, ascending by function, each with its block's index in
    /// `frame_edges`.
    frames: Vec<(usize, FrameEdges)>,
    /// The blocks of each section name, made when the first bound is reached.
    names: Option<HashMap<Vec<u8>, Vec<BlockId>>>,
    /// Names of the sections with bounds reached since the last [`Self::take_bounded`].
    bounded: Vec<Vec<u8>>,
    /// Whether a symbol outside of the graph has been reported, for each symbol.
    reported: Vec<bool>,
    externals: Vec<SymbolId>,
}

/// The names of sections with the addresses of constructors and destructors.
const INITIALIZERS: [&[u8]; 5] =
    [b".init_array", b".fini_array", b".preinit_array", b".ctors", b".dtors"];

enum Retention {
    Always,
    /// A block for tools: it stays, and keeps nothing else.
    Alone,
    IfReached,
}

impl LinkGraph {
    /// Prunes the graph (JITLink's `prune`; a linker's `--gc-sections`).
    ///
    /// Pruning keeps everything that the roots reach through edges, and sections that the object
    /// asks to keep: `.init_array` and its like, notes, sections with `SHF_GNU_RETAIN`. Sections
    /// with lifetime [`Lifetime::NoAlloc`] stay too, since they cost nothing.
    ///
    /// The sections of a group live together, and a section with `SHF_LINK_ORDER` lives when its
    /// linked section does. The frames of a function live when the function does, and with them
    /// everything that they refer to.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for a damaged `.eh_frame`.
    pub fn prune(&mut self, roots: &[SymbolId]) -> Result<()> {
        let mut pruning = self.start_pruning();
        self.reach(&mut pruning, roots);
        self.finish_pruning(pruning)
    }

    /// Starts with the sections that the object asks to keep.
    pub(crate) fn start_pruning(&self) -> Pruning {
        let object = self.object.clone();
        let mut pruning = Pruning {
            live: vec![false; self.id_count()],
            work: Vec::new(),
            companions: self.companions(object.view()),
            frame_edges: Vec::new(),
            frames: Vec::new(),
            names: None,
            bounded: Vec::new(),
            reported: vec![false; self.symbol_count() as usize],
            externals: Vec::new(),
        };
        for block in self.ids() {
            let keeping = match self.base.section_block(block.0) {
                Some(_) => self.keeping(object.view(), block),
                None => self.keeping_added(block),
            };
            match keeping {
                Retention::Always => pruning.block(block),
                Retention::Alone => pruning.live[block.0 as usize] = true,
                Retention::IfReached => {}
            }
        }
        for &block in &self.frames {
            // Edges of frames count only for the functions that are reached.
            pruning.live[block.0 as usize] = true;
            let edges = self.sorted_edges(block);
            let place = pruning.frame_edges.len();
            let frames = self.frame_edges(block, &edges).into_iter();
            pruning.frames.extend(frames.map(|frame| (place, frame)));
            pruning.frame_edges.push(edges);
        }
        pruning.frames.sort_by_key(|(_, frame)| frame.function);
        pruning
    }

    /// Follows everything from these roots, and returns the symbols outside of the graph that were
    /// reached for the first time.
    pub(crate) fn reach(&self, pruning: &mut Pruning, roots: &[SymbolId]) -> Vec<SymbolId> {
        let view = self.object.view();
        for root in roots {
            pruning.symbol(self, view, *root);
        }
        pruning.run(self, view);
        std::mem::take(&mut pruning.externals)
    }

    /// Reaches the sections of these names, which lie between bounds, and returns the same as
    /// [`Self::reach`].
    pub(crate) fn reach_sections(&self, pruning: &mut Pruning, names: &[Vec<u8>]) -> Vec<SymbolId> {
        for name in names {
            pruning.keep_sections(self, name);
        }
        self.reach(pruning, &[])
    }

    /// Returns the symbols with a place in the graph's live blocks.
    pub(crate) fn defined_symbols(&self) -> impl Iterator<Item = SymbolId> {
        let is_live = |symbol: &Symbol<'_>| match symbol.definition {
            Definition::Block(block, _) => self.is_live(block),
            _ => false,
        };
        self.symbols().filter(is_live).map(|symbol| symbol.id)
    }

    /// Takes out the unreached blocks.
    pub(crate) fn finish_pruning(&mut self, pruning: Pruning) -> Result<()> {
        for (block, live) in self.ids().zip(&pruning.live) {
            if !live {
                self.set_live(block, false);
            }
        }
        self.compact_frames()
    }

    /// Returns the companions of blocks: sections with `SHF_LINK_ORDER` live when their linked
    /// section does, and the sections of one group live together.
    fn companions(&self, view: View<'_>) -> Vec<(BlockId, BlockId)> {
        let block = |section: u32| {
            self.base.section_block(section).filter(|block| self.base.is_live(*block))
        };
        let mut companions = Vec::new();
        for (index, section) in view.sections.iter().enumerate() {
            if section.sh_flags.get(LE).contains(elf::SHF_LINK_ORDER) {
                companions.extend(block(section.sh_link.get(LE)).zip(block(index as u32)));
            }
            let members: Vec<BlockId> =
                Self::group_members(view, index as u32).filter_map(block).collect();
            let next = members.iter().skip(1).chain(members.first());
            companions.extend(members.iter().copied().zip(next.copied()));
        }
        companions.sort_unstable();
        companions
    }

    /// Returns the same as [`Self::keeping`] for a block added by a pass.
    fn keeping_added(&self, block: BlockId) -> Retention {
        if block.0 as usize >= self.base.count() && self.block(block).live {
            let section = self.section(self.block(block).section);
            if section.lifetime == Lifetime::NoAlloc {
                return Retention::Alone;
            } else if INITIALIZERS.iter().any(|kind| is_kind(section.name, kind))
                || FRAGMENTS.contains(&section.name)
            {
                return Retention::Always;
            }
        }
        Retention::IfReached
    }

    fn keeping(&self, view: View<'_>, block: BlockId) -> Retention {
        let header = &view.sections[block.0 as usize];
        let (kind, flags) = (header.sh_type.get(LE), header.sh_flags.get(LE));
        let name = view.section_name(header);
        if !self.base.is_live(block) {
            Retention::IfReached
        } else if self.lifetime(SectionId(block.0), header) == Lifetime::NoAlloc {
            Retention::Alone
        } else if flags.contains(elf::SHF_GNU_RETAIN)
            || [elf::SHT_INIT_ARRAY, elf::SHT_FINI_ARRAY, elf::SHT_PREINIT_ARRAY].contains(&kind)
            || kind == elf::SHT_NOTE && !flags.intersects(elf::SHF_GROUP | elf::SHF_LINK_ORDER)
            || INITIALIZERS.iter().any(|kind| is_kind(name, kind))
        {
            Retention::Always
        } else {
            Retention::IfReached
        }
    }
}

impl Pruning {
    fn block(&mut self, block: BlockId) {
        if !std::mem::replace(&mut self.live[block.0 as usize], true) {
            self.work.push(block);
        }
    }

    fn symbol(&mut self, graph: &LinkGraph, view: View<'_>, symbol: SymbolId) {
        match graph.definition_in(view, symbol) {
            Definition::Block(block, _) if !graph.is_discarded(block) => self.block(block),
            Definition::Absolute(_) => {}
            _ if std::mem::replace(&mut self.reported[symbol.0 as usize], true) => {}
            _ if self.keeps_bounded(graph, symbol) => {}
            _ => self.externals.push(symbol),
        }
    }

    /// Returns whether a symbol is `__start_x` or `__stop_x` of sections `x` of the graph, which it
    /// keeps.
    fn keeps_bounded(&mut self, graph: &LinkGraph, symbol: SymbolId) -> bool {
        let Some((section, _)) = bounded_section(graph.symbol(symbol).name) else { return false };
        self.bounded.push(section.to_vec());
        self.keep_sections(graph, section)
    }

    /// Keeps the sections of a name; `false` if the graph has no such section.
    fn keep_sections(&mut self, graph: &LinkGraph, name: &[u8]) -> bool {
        let names = self.names.get_or_insert_with(|| {
            let names = graph.blocks_by_name().into_iter();
            names.map(|(name, blocks)| (name.to_vec(), blocks)).collect()
        });
        // The first bound that is reached keeps all sections of the name.
        let Some(blocks) = names.get_mut(name) else { return false };
        for block in std::mem::take(blocks) {
            if graph.block(block).live {
                self.block(block);
            }
        }
        true
    }

    /// Returns the names of sections whose bounds have been reached since the last call; a name may
    /// come again.
    pub(crate) fn take_bounded(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.bounded)
    }

    fn run(&mut self, graph: &LinkGraph, view: View<'_>) {
        let companions = std::mem::take(&mut self.companions);
        let (frames, edges) =
            (std::mem::take(&mut self.frames), std::mem::take(&mut self.frame_edges));
        while let Some(block) = self.work.pop() {
            for edge in graph.edges_in(view, block) {
                self.symbol(graph, view, edge.target);
            }
            for (_, companion) in with_key(&companions, block, |(block, _)| *block) {
                self.block(*companion);
            }
            for (place, frame) in with_key(&frames, block, |(_, frame)| frame.function) {
                for range in &frame.edges {
                    for edge in &edges[*place][range.clone()] {
                        self.symbol(graph, view, edge.target);
                    }
                }
            }
        }
        (self.companions, self.frames, self.frame_edges) = (companions, frames, edges);
    }
}

/// Returns the entries with a key, from a list ascending by the key.
fn with_key<T>(
    list: &[T],
    wanted: BlockId,
    key: impl Fn(&T) -> BlockId,
) -> impl Iterator<Item = &T> {
    let first = list.partition_point(|entry| key(entry) < wanted);
    list[first..].iter().take_while(move |entry| key(entry) == wanted)
}
