//! Host memory of captured values: arguments, and bytes to copy.

use crate::memory::{Memory, Region};
use ash::vk;
use gpu_allocator::MemoryLocation;
use longshore_plugin_api::Result;
use std::sync::Arc;

/// Size of an arena's chunks, in bytes.
pub(crate) const CHUNK_BYTES: u64 = 256 << 10;
/// Host memory that the device reads, for values captured with commands.
#[derive(Default)]
pub(crate) struct Arena {
    chunks: Vec<Arc<Region>>,
    /// Chunks of one large piece each.
    large: Vec<Arc<Region>>,
    /// Index of the chunk in use, and its number of used bytes.
    current: usize,
    used: u64,
}

/// A piece of an arena.
pub(crate) struct Piece {
    pub(crate) region: u64,
    pub(crate) buffer: vk::Buffer,
    pub(crate) offset: u64,
    bytes: u64,
    start: *mut u8,
}

impl Piece {
    /// Copies bytes into the piece. Panics if they do not fit, which is a defect of the caller.
    pub(crate) fn write(&self, at: u64, value: &[u8]) {
        assert!(at + value.len() as u64 <= self.bytes, "a value fits its piece");
        // SAFETY: the range lies in the piece, which is mapped and belongs to the batch.
        unsafe {
            let target = self.start.add(at as usize);
            std::ptr::copy_nonoverlapping(value.as_ptr(), target, value.len());
        }
    }
}

impl Arena {
    pub(crate) fn reserve(&mut self, memory: &Memory, bytes: u64, alignment: u64) -> Result<Piece> {
        let mapped = |bytes| memory.internal(MemoryLocation::CpuToGpu, bytes);
        if bytes > CHUNK_BYTES / 4 {
            let region = mapped(bytes)?;
            let piece = Piece::new(&region, 0, bytes);
            self.large.push(region);
            return Ok(piece);
        }
        let start = self.used.next_multiple_of(alignment);
        let fits = self.current < self.chunks.len() && start + bytes <= CHUNK_BYTES;
        let start = if fits { start } else { 0 };
        if !fits {
            self.current += usize::from(self.current < self.chunks.len());
            if self.current == self.chunks.len() {
                self.chunks.push(mapped(CHUNK_BYTES)?);
            }
        }
        self.used = start + bytes;
        Ok(Piece::new(&self.chunks[self.current], start, bytes))
    }

    pub(crate) fn reset(&mut self, memory: &Memory) {
        for region in self.large.drain(..) {
            memory.release(&region);
        }
        (self.current, self.used) = (0, 0);
    }

    pub(crate) fn destroy(&mut self, memory: &Memory) {
        self.reset(memory);
        for region in self.chunks.drain(..) {
            memory.release(&region);
        }
    }
}

impl Piece {
    fn new(region: &Region, start: u64, bytes: u64) -> Piece {
        // SAFETY: `start` lies in the region, which is mapped.
        let mapped = unsafe { region.mapped().add(start as usize) };
        let (buffer, offset) = (region.buffer, region.offset + start);
        Piece { region: region.id, buffer, offset, bytes, start: mapped }
    }
}
