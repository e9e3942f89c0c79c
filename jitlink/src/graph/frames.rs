//! The records of `.eh_frame`: which function each is for, and the section without those of functions that are gone.

use hashbrown::HashMap;

use super::edit::Content;
use super::{BlockId, Definition, Edge, LinkGraph};
use crate::Result;
use crate::elf::View;

/// Zeroes after the last record, by which the unwinder knows the end.
pub(super) const TERMINATOR: u64 = 4;

/// A record of `.eh_frame`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) start: usize,
    pub(super) end: usize,
    /// For a function's record (FDE), where its common record (CIE) starts.
    common: Option<usize>,
    /// Where the field after the length starts.
    body: usize,
}

impl Record {
    /// Where an FDE's pointer to its function is.
    fn function_field(&self) -> u64 {
        self.body as u64 + 4
    }
}

/// The records of a section, up to the first that is damaged or ends the list.
pub(super) fn records(content: &[u8]) -> impl Iterator<Item = Record> {
    let mut at = 0;
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

/// The function's edges of each FDE.
pub(super) struct FrameEdges {
    pub(super) function: BlockId,
    /// Where it and its CIE lie among the block's edges.
    pub(super) edges: [std::ops::Range<usize>; 2],
}

impl LinkGraph {
    /// The edges of a block with frames by offset, which is how they come.
    pub(super) fn sorted_edges(&self, block: BlockId) -> Vec<Edge> {
        let mut edges: Vec<Edge> = self.edges(block).collect();
        if !edges.is_sorted_by_key(|edge| edge.offset) {
            edges.sort_by_key(|edge| edge.offset);
        }
        edges
    }

    /// For each FDE whose function is in this graph, what it refers to.
    pub(super) fn frame_edges(&self, block: BlockId, edges: &[Edge]) -> Vec<FrameEdges> {
        let view = self.object.view();
        let range = |start: usize, end: usize| {
            let first = edges.partition_point(|edge| edge.offset < start as u64);
            first..edges.partition_point(|edge| edge.offset < end as u64)
        };
        let all: Vec<Record> = records(self.content(block)).collect();
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

    /// The block of the function that an FDE is for.
    fn function_of(&self, view: View<'_>, record: &Record, edges: &[Edge]) -> Option<BlockId> {
        record.common?;
        let edge = edges.iter().find(|edge| edge.offset == record.function_field())?;
        match self.definition_in(view, edge.target) {
            Definition::Block(block, _) => Some(block),
            _ => None,
        }
    }

    /// Takes the frames of functions out that are not live, with the CIEs that nobody needs any more.
    pub(super) fn compact_frames(&mut self) -> Result<()> {
        for block in self.frames.clone() {
            let edges = self.sorted_edges(block);
            if let Some((content, edges)) = self.compacted(block, &edges)? {
                let section = self.block(block).section;
                let alignment = self.block(block).alignment;
                self.base.set_live(block, false);
                let compact = self.add_block(section, Content::Bytes(content), alignment);
                self.set_edges(compact, edges);
                self.compacted_frames.push(compact);
            }
        }
        Ok(())
    }

    fn compacted(&self, block: BlockId, edges: &[Edge]) -> Result<Option<(Vec<u8>, Vec<Edge>)>> {
        let view = self.object.view();
        let content = self.content(block);
        let kept = |record: &Record| {
            let first = edges.partition_point(|edge| edge.offset < record.start as u64);
            let own = &edges[first..edges.partition_point(|edge| edge.offset < record.end as u64)];
            match self.function_of(view, record, own) {
                Some(function) => self.block(function).live,
                None => true,
            }
        };
        let all: Vec<Record> = records(content).collect();
        let frames: Vec<Record> =
            all.iter().filter(|r| r.common.is_some() && kept(r)).copied().collect();
        if frames.len() == all.iter().filter(|record| record.common.is_some()).count() {
            return Ok(None);
        }
        let mut out = Compact { content, edges, bytes: Vec::new(), moved: Vec::new() };
        let mut commons = HashMap::new();
        let by_start: HashMap<usize, Record> =
            all.iter().filter(|r| r.common.is_none()).map(|r| (r.start, *r)).collect();
        for frame in frames {
            let start = frame.common.expect("only FDEs were kept");
            let Some(cie) = by_start.get(&start) else {
                return Err(self.malformed(format!(
                    "the frame at {:#x} of .eh_frame has no CIE at {start:#x}",
                    frame.start
                )));
            };
            let common = *commons.entry(start).or_insert_with(|| out.take(cie));
            let at = out.take(&frame);
            out.point_at_common(&frame, at, common);
        }
        Ok(Some((out.bytes, out.moved)))
    }
}

/// A section of frames while it is made smaller.
struct Compact<'a> {
    content: &'a [u8],
    edges: &'a [Edge],
    bytes: Vec<u8>,
    moved: Vec<Edge>,
}

impl Compact<'_> {
    /// Takes a record over; where it starts now.
    fn take(&mut self, record: &Record) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&self.content[record.start..record.end]);
        let first = self.edges.partition_point(|edge| edge.offset < record.start as u64);
        let own = self.edges[first..].iter().take_while(|edge| edge.offset < record.end as u64);
        self.moved.extend(own.map(|edge| Edge {
            offset: edge.offset - record.start as u64 + start as u64,
            ..*edge
        }));
        start
    }

    fn point_at_common(&mut self, frame: &Record, at: usize, common: usize) {
        let field = at + (frame.body - frame.start);
        let back = (field - common) as u32;
        self.bytes[field..field + 4].copy_from_slice(&back.to_le_bytes());
    }
}
