//! Shared memory of the items of a group.

use crate::fences::{self, FencedMapping};
use crate::kernel::SHARED_BYTES;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;

const HALF: usize = SHARED_BYTES as usize;
/// Size of the fence behind the dynamic part, so that an overrun is a fault.
const FENCE_BYTES: usize = 64 << 10;
/// Number of blocks that a thread keeps: a cooperative launch has one block for each group.
const KEPT: usize = 64;
/// Alignment of the dynamic part.
const ALIGNMENT: usize = 64;

thread_local!(static FREE: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) });

/// The shared memory of one group, which its thread keeps for later groups. The contents of the
/// previous group remain.
pub(super) struct SharedMemory {
    block: Option<Block>,
}

impl SharedMemory {
    #[inline]
    pub(super) fn take() -> SharedMemory {
        // An ending thread has lost its memory.
        let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        SharedMemory { block: free.or_else(Block::map) }
    }

    /// Returns the part for declared variables, of [`SHARED_BYTES`] bytes. Null without memory.
    pub(super) fn fixed(&self) -> *mut c_void {
        self.block.as_ref().map_or(null_mut(), |block| block.base)
    }

    /// Returns the size of the part for declared variables if it may take all that the dynamic part
    /// leaves, except a gap.
    pub(super) fn most_fixed_bytes(dynamic_bytes: u64) -> u64 {
        let dynamic = (dynamic_bytes as usize).min(HALF).next_multiple_of(ALIGNMENT);
        (2 * HALF - dynamic - 4096) as u64
    }

    /// Returns the dynamic part, which ends at the fence.
    pub(super) fn dynamic(&self, bytes: u64) -> *mut c_void {
        let Some(block) = self.block.as_ref().filter(|_| bytes > 0) else { return null_mut() };
        let bytes = (bytes as usize).min(HALF).next_multiple_of(ALIGNMENT);
        block.base.wrapping_byte_add(2 * HALF - bytes)
    }
}

impl Drop for SharedMemory {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            // After the thread's variables, nothing is kept.
            let _ = FREE.try_with(|free| {
                let mut free = free.borrow_mut();
                if free.len() < KEPT {
                    free.push(block);
                }
            });
        }
    }
}

struct Block {
    base: *mut c_void,
    _fenced: FencedMapping,
}

impl Block {
    #[cold]
    fn map() -> Option<Block> {
        // SAFETY: this is a new mapping; the fence at its end is made inaccessible.
        unsafe {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let base = libc::mmap(null_mut(), 2 * HALF + FENCE_BYTES, protection, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return None;
            }
            let fence = base.byte_add(2 * HALF);
            libc::mprotect(fence, FENCE_BYTES, libc::PROT_NONE);
            let fence = fence as u64..fence as u64 + FENCE_BYTES as u64;
            Some(Block { base, _fenced: fences::register(fence) })
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `map` mapped the block, and no code uses it any more.
        unsafe { libc::munmap(self.base, 2 * HALF + FENCE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_the_memory_of_few_groups() {
        drop(Vec::from_iter((0..4 * KEPT).map(|_| SharedMemory::take())));
        assert_eq!(FREE.with_borrow(Vec::len), KEPT);
    }
}
