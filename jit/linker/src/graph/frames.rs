//! The records of `.eh_frame`: the function of each, and the section without the records of removed
//! functions.

use std::sync::OnceLock;

use hashbrown::HashMap;

use super::{Block, BlockId, Definition, Edge, Edges, LinkGraph};
use crate::Result;
use crate::elf::View;
use crate::memory::Lifetime;

/// Size in bytes of the zeroes after the last record, by which the unwinder recognizes the end.
pub(super) const TERMINATOR: u64 = 4;

/// A record of `.eh_frame`.
#[derive(Debug, Clone, Copy)]
struct Record {
    start: usize,
    end: usize,
    /// Start of the common record (CIE); `None` for a record other than a function's (FDE).
    common: Option<usize>,
    /// Start of the field after the length.
    body: usize,
}

impl Record {
    /// Returns the offset of an FDE's pointer to its function.
    fn function_field(&self) -> u64 {
        self.body as u64 + 4
    }
}

/// Returns the records of a section from `at`, up to the first that is damaged or ends the list.
fn records(content: &[u8], mut at: usize) -> impl Iterator<Item = Record> {
    std::iter::from_fn(move || {
        let record = record_at(content, at)?;
        at = record.end;
        Some(record)
    })
}

fn record_at(content: &[u8], start: usize) -> Option<Record> {
    let word =
        |at: usize| Some(u32::from_le_bytes(content.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let (length, body) = match word(start)? {
        0 => return None,
        u32::MAX => {
            let length = content.get(start + 4..start + 12)?;
            (usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?, start + 12)
        }
        length => (length as usize, start + 4),
    };
    let end = body.checked_add(length)?;
    let common = match word(body)? {
        0 => None,
        back => Some(body.checked_sub(back as usize)?),
    };
    (end <= content.len() && length >= 4).then_some(Record { start, end, common, body })
}

/// The edges of an FDE and of its CIE.
pub(super) struct FrameEdges {
    pub(super) function: BlockId,
    /// Ranges of the FDE's and the CIE's edges among the block's.
    pub(super) edges: [std::ops::Range<usize>; 2],
}

impl LinkGraph {
    /// Returns the edges of a block with frames by offset, usually the object's order.
    pub(super) fn sorted_edges(&self, block: BlockId) -> Vec<Edge> {
        let mut edges: Vec<Edge> = self.edges(block).collect();
        if !edges.is_sorted_by_key(|edge| edge.offset) {
            edges.sort_by_key(|edge| edge.offset);
        }
        edges
    }

    /// Returns whether four zero bytes follow a block in memory, by which the unwinder recognizes
    /// the end of its frames.
    pub fn has_terminator(&self, block: BlockId) -> bool {
        let is_of = |frames: &[BlockId]| frames.binary_search(&block).is_ok();
        let has_memory = self.section(self.block(block).section).lifetime != Lifetime::NoAlloc;
        (is_of(&self.frames) || is_of(&self.compacted_frames)) && has_memory
    }

    /// Returns the edges of each FDE whose function is in this graph.
    pub(super) fn frame_edges(&self, block: BlockId, edges: &[Edge]) -> Vec<FrameEdges> {
        let view = self.object.view();
        let range = |start: usize, end: usize| {
            let first = edges.partition_point(|edge| edge.offset < start as u64);
            first..edges.partition_point(|edge| edge.offset < end as u64)
        };
        let all: Vec<Record> = records(self.content(block), 0).collect();
        let common: HashMap<usize, Record> =
            all.iter().filter(|r| r.common.is_none()).map(|r| (r.start, *r)).collect();
        all.iter()
            .filter_map(|record| {
                let own = range(record.start, record.end);
                let function = self.function_of(view, record, &edges[own.clone()])?;
                let shared =
                    common.get(&record.common?).map_or(0..0, |cie| range(cie.start, cie.end));
                Some(FrameEdges { function, edges: [own, shared] })
            })
            .collect()
    }

    /// Returns the block of the function that an FDE is for.
    fn function_of(&self, view: View<'_>, record: &Record, edges: &[Edge]) -> Option<BlockId> {
        record.common?;
        let edge = edges.iter().find(|edge| edge.offset == record.function_field())?;
        match self.definition_in(view, edge.target) {
            Definition::Block(block, _) => Some(block),
            _ => None,
        }
    }

    /// Takes out the frames of functions that are not live, with the CIEs that no remaining frame
    /// needs.
    pub(super) fn compact_frames(&mut self) -> Result<()> {
        for block in self.frames.clone() {
            if let Some(kept) = self.kept_frames(block)? {
                let Block { section, alignment, .. } = self.block(block);
                self.base.set_live(block, false);
                let compact = self.add_frames(section, kept, alignment);
                self.compacted_frames.push(compact);
            }
        }
        Ok(())
    }

    /// Returns the frames that stay; `None` if all do.
    fn kept_frames(&self, block: BlockId) -> Result<Option<RetainedFrames>> {
        let view = self.object.view();
        let edges = self.sorted_edges(block);
        let content = self.content(block);
        if u32::try_from(content.len()).is_err() {
            return Err(self.too_large());
        }
        let kept = |record: &Record| {
            let first = edges.partition_point(|edge| edge.offset < record.start as u64);
            let own = &edges[first..edges.partition_point(|edge| edge.offset < record.end as u64)];
            match self.function_of(view, record, own) {
                Some(function) => self.is_live(function),
                None => true,
            }
        };
        let (commons, frames): (Vec<Record>, Vec<Record>) =
            records(content, 0).partition(|record| record.common.is_none());
        let count = frames.len();
        let frames: Vec<Record> = frames.into_iter().filter(kept).collect();
        if frames.len() == count {
            return Ok(None);
        }
        let mut taken = vec![false; commons.len()];
        let mut out = RetainedFrames::from_block(block);
        for frame in frames {
            let start = frame.common.expect("only FDEs were kept");
            let Ok(common) = commons.binary_search_by_key(&start, |common| common.start) else {
                return Err(self.malformed(format!(
                    "the frame at {:#x} of .eh_frame has no CIE at {start:#x}",
                    frame.start
                )));
            };
            if !std::mem::replace(&mut taken[common], true) {
                out.take(&commons[common]);
            }
            out.take(&frame);
        }
        Ok(Some(out.finish()))
    }

    /// Returns the kept frames from which a block was made, if the block is unchanged.
    pub(super) fn frames_of(&self, block: BlockId) -> Option<&RetainedFrames> {
        self.base.state(block).is_none().then(|| self.added_block(block).frames.as_deref())?
    }

    /// Writes the content of a block of frames to `out`, which has its size.
    pub(super) fn write_frames(&self, frames: &RetainedFrames, out: &mut [u8]) {
        let content = self.content(frames.of);
        for run in &frames.runs {
            let (from, to) = (run.from as usize, run.to as usize);
            let end = from + run.size as usize;
            out[to..][..end - from].copy_from_slice(&content[from..end]);
            for record in records(&content[..end], from) {
                let Some(common) = record.common.and_then(|start| frames.place(start as u64))
                else {
                    continue;
                };
                let field = record.body - from + to;
                let back = (field as u32).wrapping_sub(common as u32);
                out[field..field + 4].copy_from_slice(&back.to_le_bytes());
            }
        }
    }
}

/// The parts of an object's section of frames that stay. Content and edges are made from these on
/// demand.
pub(super) struct RetainedFrames {
    of: BlockId,
    /// Ascending by their places in the object.
    runs: Vec<Run>,
    pub(super) size: u32,
    /// The content, made on demand.
    content: OnceLock<Box<[u8]>>,
}

/// A run of adjacent records.
#[derive(Clone, Copy)]
struct Run {
    from: u32,
    to: u32,
    size: u32,
}

impl RetainedFrames {
    fn from_block(block: BlockId) -> Self {
        Self { of: block, runs: Vec::new(), size: 0, content: OnceLock::new() }
    }

    /// Appends a record.
    fn take(&mut self, record: &Record) {
        let (from, size) = (record.start as u32, (record.end - record.start) as u32);
        match self.runs.last_mut() {
            Some(run) if run.from + run.size == from => run.size += size,
            _ => self.runs.push(Run { from, to: self.size, size }),
        }
        self.size += size;
    }

    fn finish(mut self) -> Self {
        self.runs.sort_unstable_by_key(|run| run.from);
        self.runs.shrink_to_fit();
        self
    }

    /// Returns the new offset of an offset in the object's section.
    fn place(&self, offset: u64) -> Option<u64> {
        let next = self.runs.partition_point(|run| u64::from(run.from) <= offset);
        let run = self.runs.get(next.checked_sub(1)?)?;
        let inside = offset - u64::from(run.from);
        (inside < u64::from(run.size)).then(|| inside + u64::from(run.to))
    }

    /// Returns the section's edges, from the edges of the object's section.
    pub(super) fn edges<'a>(&'a self, graph: &'a LinkGraph, view: View<'a>) -> RetainedEdges<'a> {
        RetainedEdges { frames: self, edges: Box::new(graph.edges_in(view, self.of)) }
    }

    pub(super) fn content(&self, graph: &LinkGraph) -> &[u8] {
        self.content.get_or_init(|| {
            let mut content = vec![0; self.size as usize].into_boxed_slice();
            graph.write_frames(self, &mut content);
            content
        })
    }
}

/// The edges of a section of frames, without the edges of removed frames.
#[derive(Clone)]
pub(super) struct RetainedEdges<'a> {
    frames: &'a RetainedFrames,
    edges: Box<Edges<'a>>,
}

impl Iterator for RetainedEdges<'_> {
    type Item = Edge;

    fn next(&mut self) -> Option<Edge> {
        let frames = self.frames;
        self.edges.find_map(|edge| Some(Edge { offset: frames.place(edge.offset)?, ..edge }))
    }
}
