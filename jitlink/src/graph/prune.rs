//! Pruning: what no root reaches is taken out.

use object::elf;

use super::frames::FrameEdges;
use super::{BlockId, Definition, Edge, LIVE, LinkGraph, NONE, SectionId, SymbolId};
use crate::Result;
use crate::elf::{LE, View};
use crate::memory::Lifetime;

/// What has been reached so far. Roots can be added while other graphs are looked at.
pub(crate) struct Pruning {
    live: Vec<bool>,
    work: Vec<BlockId>,
    frames: Vec<Frames>,
    /// Symbols outside of the graph that have been reported.
    reported: Vec<bool>,
    externals: Vec<SymbolId>,
}

/// A section of frames, of which parts live.
struct Frames {
    edges: Vec<Edge>,
    /// Those of functions that have not been reached.
    waiting: Vec<FrameEdges>,
}

enum Keeping {
    Always,
    /// It stays, and keeps nothing else: what tools read.
    Alone,
    IfReached,
}

impl LinkGraph {
    /// Keeps what the roots reach through edges, and sections that the object asks to keep: `.init_array` and its like, those
    /// with `SHF_GNU_RETAIN`, those with lifetime [`Lifetime::NoAlloc`] (which cost nothing). The frames of a function live
    /// when the function does, and with them what they refer to (JITLink's `prune`; a linker's `--gc-sections`).
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for `.eh_frame` that cannot be taken apart.
    pub fn prune(&mut self, roots: &[SymbolId]) -> Result<()> {
        let mut pruning = self.start_pruning();
        self.reach(&mut pruning, roots);
        self.finish_pruning(pruning)
    }

    /// Begins with what the object asks to keep.
    pub(crate) fn start_pruning(&self) -> Pruning {
        let object = self.object.clone();
        let mut pruning = Pruning {
            live: vec![false; self.base.len() + self.added_blocks.len()],
            work: Vec::new(),
            frames: Vec::new(),
            reported: vec![false; self.symbol_count() as usize],
            externals: Vec::new(),
        };
        for index in 0..self.base.len() {
            match self.keeping(object.view(), index) {
                Keeping::Always => pruning.block(BlockId(index as u32)),
                Keeping::Alone => pruning.live[index] = true,
                Keeping::IfReached => {}
            }
        }
        for block in self.frame_blocks() {
            // Its edges count only for the functions that are reached.
            pruning.live[block.0 as usize] = true;
            let edges = self.sorted_edges(block);
            pruning.frames.push(Frames { waiting: self.frame_edges(block, &edges), edges });
        }
        pruning
    }

    /// Follows everything from these roots, and returns the symbols outside of the graph that were reached for the first time.
    pub(crate) fn reach(&self, pruning: &mut Pruning, roots: &[SymbolId]) -> Vec<SymbolId> {
        let view = self.object.view();
        for root in roots {
            pruning.symbol(self, view, *root);
        }
        pruning.run(self, view);
        std::mem::take(&mut pruning.externals)
    }

    /// Takes out what was not reached.
    pub(crate) fn finish_pruning(&mut self, pruning: Pruning) -> Result<()> {
        for (index, live) in pruning.live.iter().enumerate() {
            if !live {
                self.set_live(BlockId(index as u32), false);
            }
        }
        self.compact_frames()
    }

    fn keeping(&self, view: View<'_>, index: usize) -> Keeping {
        let block = self.base[index];
        let header = &view.sections[block.section as usize];
        let kind = header.sh_type.get(LE);
        let name = view.section_name(header);
        if block.flags & LIVE == 0 {
            Keeping::IfReached
        } else if self.lifetime(SectionId(block.section), header) == Lifetime::NoAlloc {
            Keeping::Alone
        } else if header.sh_flags.get(LE).contains(elf::SHF_GNU_RETAIN)
            || [elf::SHT_INIT_ARRAY, elf::SHT_FINI_ARRAY, elf::SHT_PREINIT_ARRAY].contains(&kind)
            || [&b".init"[..], b".fini", b".ctors", b".dtors"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        {
            Keeping::Always
        } else {
            Keeping::IfReached
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
            _ => {
                self.externals.push(symbol);
                self.sections_bounded_by(graph, view, symbol);
            }
        }
    }

    /// `__start_x` and `__stop_x` keep the sections `x`.
    fn sections_bounded_by(&mut self, graph: &LinkGraph, view: View<'_>, symbol: SymbolId) {
        let name = graph.symbol(symbol).name;
        let Some(bounded) =
            name.strip_prefix(b"__start_").or_else(|| name.strip_prefix(b"__stop_"))
        else {
            return;
        };
        for (index, section) in view.sections.iter().enumerate() {
            let block = graph.section_blocks[index];
            if block != NONE && view.section_name(section) == bounded {
                self.block(BlockId(block));
            }
        }
    }

    fn run(&mut self, graph: &LinkGraph, view: View<'_>) {
        while !self.work.is_empty() {
            while let Some(block) = self.work.pop() {
                for edge in graph.edges_in(view, block) {
                    self.symbol(graph, view, edge.target);
                }
            }
            let mut frames = std::mem::take(&mut self.frames);
            for section in &mut frames {
                let reached: Vec<FrameEdges> = section
                    .waiting
                    .extract_if(.., |frame| self.live[frame.function.0 as usize])
                    .collect();
                for edge in reached
                    .iter()
                    .flat_map(|frame| &frame.edges)
                    .flat_map(|range| &section.edges[range.clone()])
                {
                    self.symbol(graph, view, edge.target);
                }
            }
            self.frames = frames;
        }
    }
}
