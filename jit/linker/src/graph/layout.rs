//! Layout: the arrangement of blocks in segments, by protection and lifetime.

use object::elf;

use super::{Block, BlockId, LinkGraph, NO_SEGMENT, SectionId, frames, protection};
use crate::elf::{LE, View};
use crate::memory::{Lifetime, Protection, SegmentRequest, WorkingMemory};
use crate::{Error, Result};

/// The limit of all segments of a link together in bytes: the reach of a signed 32-bit distance.
const MAX_SIZE: u64 = i32::MAX as u64;

/// The group of zeroes that lie behind all data.
const ZEROES: u32 = u32::MAX;

/// A segment of a graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) protection: Protection,
    pub(crate) lifetime: Lifetime,
    alignment: u64,
    content_size: u64,
    zero_fill_size: u64,
    /// The group; other than 0 for a segment that lies together with other graphs'.
    pub(crate) group: u32,
    /// The segment's address; 0 until allocated.
    pub(crate) address: u64,
}

/// The template of a graph's thread-local variables.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TlsTemplate {
    pub(crate) segment: u8,
    pub(crate) content_size: u64,
    pub(crate) size: u64,
    pub(crate) alignment: u64,
}

/// The part of a segment to which a block belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Initial values of thread-local variables, first in their segment.
    ThreadLocal,
    /// Zeroes after the initial values, which have addresses and no memory.
    ThreadLocalZero,
    Content,
    Zero,
}

/// The properties of a block that layout needs.
pub(super) struct Item {
    pub(super) id: BlockId,
    pub(super) part: Part,
    pub(super) protection: Protection,
    pub(super) lifetime: Lifetime,
    pub(super) size: u64,
    alignment: u64,
}

impl LinkGraph {
    /// Gives every live block a place in a segment, and returns the segments' requests for memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the segments have more than 2 GiB together, or if sections cannot
    /// lie as they must.
    pub(crate) fn lay_out(&mut self) -> Result<Vec<SegmentRequest>> {
        self.segments.clear();
        self.tables.template = None;
        let object = self.object.clone();
        let view = object.view();
        if self.has_thread_locals {
            self.lay_out_thread_locals(view)?;
        }
        let bounded = self.bounded(view)?;
        for part in [Part::Content, Part::Zero] {
            for item in bounded.items.iter().flatten().filter(|item| item.part == part) {
                self.place_item(item, bounded.groups.get(&item.id).copied().unwrap_or(0))?;
            }
            for id in self.ids() {
                match self.item(view, id) {
                    Some(item)
                        if item.part == part
                            && item.size > 0
                            && !bounded.blocks.contains(&item.id) =>
                    {
                        self.place_item(&item, 0)?
                    }
                    _ => {}
                }
            }
        }
        self.place_empty(view);
        self.define_bounds(view, &bounded);
        for segment in &mut self.segments {
            // Thread-local zeroes alone take no memory, but have an address.
            if segment.content_size + segment.zero_fill_size == 0 {
                segment.zero_fill_size = 1;
            }
        }
        Ok(self.segments.iter().map(Segment::request).collect())
    }

    /// Takes the memory for the segments, which gives every block its address.
    pub(crate) fn place_segments(&mut self, memory: WorkingMemory) {
        for (segment, address) in self.segments.iter_mut().zip(&memory.addresses) {
            segment.address = *address;
        }
        self.memory = Some(memory);
    }

    /// Drops the graph's memory, which has its final content; `false` without memory.
    pub(crate) fn release_memory(&mut self) -> bool {
        self.memory.take().is_some()
    }

    /// Returns address and size of each segment that stays.
    pub(crate) fn segment_ranges(&self) -> Vec<(u64, u64)> {
        let stay = self.segments.iter().filter(|segment| segment.lifetime == Lifetime::Standard);
        stay.map(|s| (s.address, s.content_size + s.zero_fill_size)).collect()
    }

    /// Returns the addresses that the graph covers, from the first to the end of the last segment.
    pub(crate) fn address_range(&self) -> std::ops::Range<u64> {
        let start = self.segments.iter().map(|segment| segment.address).min().unwrap_or(0);
        let end = self
            .segments
            .iter()
            .map(|segment| segment.address + segment.content_size + segment.zero_fill_size);
        start..end.max().unwrap_or(start)
    }

    /// Returns the size of the graph's segments together in bytes, zeroes included, once it is laid
    /// out.
    pub fn memory_size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.content_size + segment.zero_fill_size).sum()
    }

    /// Returns the template of the graph's thread-local variables and its address.
    pub(crate) fn tls_template(&self) -> Option<(TlsTemplate, u64)> {
        let template = self.tables.template?;
        Some((template, self.segments[usize::from(template.segment)].address))
    }

    /// Returns address and size of each section of frames that stays, with the terminator.
    pub(crate) fn frame_sections(&self) -> Vec<(u64, u64)> {
        let blocks = self.frames.iter().copied().chain(self.compacted_frames.iter().copied());
        let stays = |block: &Block| {
            let lifetime = self.section(block.section).lifetime;
            block.live && block.size > 0 && lifetime == Lifetime::Standard
        };
        let blocks = blocks.map(|id| self.block(id)).filter(stays);
        blocks.map(|block| (block.address, block.size + frames::TERMINATOR)).collect()
    }

    /// Returns the item of a block; `None` for a block without memory.
    #[inline]
    pub(super) fn item(&self, view: View<'_>, id: BlockId) -> Option<Item> {
        match self.base.state(id) {
            Some(state) if state.is_live() => self.object_item(view, id),
            Some(_) => None,
            None => self.added_item(id),
        }
    }

    fn object_item(&self, view: View<'_>, id: BlockId) -> Option<Item> {
        let header = &view.sections[id.0 as usize];
        let lifetime = self.lifetime(SectionId(id.0), header);
        if lifetime == Lifetime::NoAlloc {
            return None;
        }
        let size = header.sh_size.get(LE);
        let thread_local = header.sh_flags.get(LE).contains(elf::SHF_TLS);
        let part = match (thread_local, header.sh_type.get(LE) == elf::SHT_NOBITS) {
            (true, false) => Part::ThreadLocal,
            (true, true) => Part::ThreadLocalZero,
            (false, false) => Part::Content,
            (false, true) => Part::Zero,
        };
        let terminator =
            if self.frames.binary_search(&id).is_ok() { frames::TERMINATOR } else { 0 };
        let size = size.saturating_add(terminator);
        let alignment = header.sh_addralign.get(LE).max(1);
        Some(Item { id, part, protection: protection(view, header), lifetime, size, alignment })
    }

    fn added_item(&self, id: BlockId) -> Option<Item> {
        let Block { section, size, alignment, zero_fill, live, .. } = self.block(id);
        let section = self.section(section);
        let part = if zero_fill { Part::Zero } else { Part::Content };
        let terminator =
            if self.compacted_frames.binary_search(&id).is_ok() { frames::TERMINATOR } else { 0 };
        let (protection, lifetime) = (section.protection, section.lifetime);
        let size = size.saturating_add(terminator);
        (live && lifetime != Lifetime::NoAlloc).then_some(Item {
            id,
            part,
            protection,
            lifetime,
            size,
            alignment,
        })
    }

    /// Assigns places to thread-local sections together, content first, at the start of the segment
    /// for constants.
    fn lay_out_thread_locals(&mut self, view: View<'_>) -> Result<()> {
        let items = self.base.ids().filter_map(|id| self.item(view, id));
        let items: Vec<Item> = items
            .filter(|item| matches!(item.part, Part::ThreadLocal | Part::ThreadLocalZero))
            .collect();
        let Some(first) = items.first() else { return Ok(()) };
        if items.iter().any(|item| item.lifetime != Lifetime::Standard) {
            return Err(self.unsupported(
                "a pass gives thread-local variables another lifetime; threads start at any time and copy them",
            ));
        }
        let segment = self.segment_for(first.protection, first.lifetime, 0)?;
        let alignment = items.iter().map(|item| item.alignment).max().unwrap_or(1);
        let mut template = TlsTemplate { segment, content_size: 0, size: 0, alignment };
        for part in [Part::ThreadLocal, Part::ThreadLocalZero] {
            for item in items.iter().filter(|item| item.part == part) {
                let at = align(template.size, item.alignment);
                template.size = at
                    .checked_add(item.size)
                    .filter(|size| *size <= MAX_SIZE)
                    .ok_or_else(|| self.too_large())?;
                self.set_position(item.id, segment, at as u32);
                if part == Part::ThreadLocal {
                    template.content_size = template.size;
                }
            }
        }
        let segment = &mut self.segments[usize::from(segment)];
        segment.alignment = segment.alignment.max(alignment);
        segment.content_size = template.content_size;
        self.tables.template = Some(template);
        Ok(())
    }

    /// Assigns places to empty blocks, which need no memory but may have symbols.
    fn place_empty(&mut self, view: View<'_>) {
        if self.segments.is_empty() {
            return;
        }
        for id in self.ids() {
            let empty =
                |item: &Item| item.size == 0 && matches!(item.part, Part::Content | Part::Zero);
            if let Some(item) = self.item(view, id).filter(empty) {
                let same =
                    |s: &Segment| s.protection == item.protection && s.lifetime == item.lifetime;
                self.set_position(id, self.segments.iter().position(same).unwrap_or(0) as u8, 0);
            }
        }
    }

    fn place_item(&mut self, item: &Item, group: u32) -> Result<()> {
        let is_apart = self.tables.separates_zeroes
            && (item.part, item.protection) == (Part::Zero, Protection::ReadWrite);
        let group = if is_apart && group == 0 { ZEROES } else { group };
        let index = self.segment_for(item.protection, item.lifetime, group)?;
        let segment = &mut self.segments[usize::from(index)];
        let end = segment.content_size + segment.zero_fill_size;
        let at = align(end, item.alignment);
        let Some(end) = at.checked_add(item.size).filter(|end| *end <= MAX_SIZE) else {
            return Err(self.too_large());
        };
        segment.alignment = segment.alignment.max(item.alignment);
        if item.part == Part::Zero {
            segment.zero_fill_size = end - segment.content_size;
        } else {
            segment.content_size = end;
        }
        self.set_position(item.id, index, at as u32);
        Ok(())
    }

    fn segment_for(
        &mut self,
        protection: Protection,
        lifetime: Lifetime,
        group: u32,
    ) -> Result<u8> {
        let kind = (protection, lifetime, group);
        let found = self.segments.iter().position(|s| (s.protection, s.lifetime, s.group) == kind);
        if let Some(index) = found {
            return Ok(index as u8);
        }
        if self.segments.len() == usize::from(NO_SEGMENT) {
            return Err(self.unsupported("it has sections between bounds of too many names"));
        }
        self.segments.push(Segment {
            protection,
            lifetime,
            alignment: 1,
            content_size: 0,
            zero_fill_size: 0,
            group,
            address: 0,
        });
        Ok(self.segments.len() as u8 - 1)
    }

    fn set_position(&mut self, block: BlockId, segment: u8, placement: u32) {
        match (block.0 as usize).checked_sub(self.base.count()) {
            None => self.base.set_position(block, segment, placement),
            Some(added) => {
                let added = &mut self.added_blocks[added];
                (added.segment, added.placement) = (segment, placement);
            }
        }
    }

    pub(super) fn too_large(&self) -> Error {
        self.unsupported("its sections have more than 2 GiB together, more than one link can have")
    }
}

impl Segment {
    fn request(&self) -> SegmentRequest {
        SegmentRequest {
            protection: self.protection,
            lifetime: self.lifetime,
            alignment: self.alignment,
            content_size: self.content_size,
            zero_fill_size: self.zero_fill_size,
            group: self.group,
        }
    }

    /// Returns the addresses of the segment's content, without the zeroes behind it.
    pub(crate) fn content(&self) -> std::ops::Range<u64> {
        self.address..self.address + self.content_size
    }

    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        self.address..self.address + self.content_size + self.zero_fill_size
    }
}

fn align(at: u64, alignment: u64) -> u64 {
    at.next_multiple_of(alignment)
}
