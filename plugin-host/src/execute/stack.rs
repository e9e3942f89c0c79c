//! Stacks of items that wait for each other.

use crate::check::steps;
use crate::fences::{self, FencedMapping};
use corosensei::stack::{Stack, StackPointer};
use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size of each item's stack, in bytes.
pub(super) const STACK_BYTES: usize = 256 << 10;
/// Size of the fence below each stack, so that an overflow is a fault even if it skips some pages.
const FENCE_BYTES: usize = 1 << 20;
/// Number of stacks that a thread keeps.
const KEPT: usize = 1024;

/// Number of different offsets of stacks, and the distance between two, in bytes.
const OFFSETS: usize = 61;
const OFFSET_BYTES: usize = 192;
/// Number of stacks of the process so far.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

thread_local!(static FREE: RefCell<Vec<ItemStack>> = const { RefCell::new(Vec::new()) });

/// A stack above a fence.
pub(super) struct ItemStack {
    /// First address of the fence.
    start: NonNull<u8>,
    /// Number of the stack in the process.
    number: usize,
    /// Number of unused bytes at the stack's upper end. In checked launches it differs between
    /// stacks: equal offsets would compete for the same lines of the caches.
    offset: usize,
    _fenced: FencedMapping,
}

impl ItemStack {
    /// Returns a kept stack of this thread, or a new one.
    ///
    /// # Errors
    /// The system's error, without memory or with too many mappings.
    pub(super) fn take() -> io::Result<ItemStack> {
        // An ending thread has lost its stacks.
        let kept = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        let mut stack = kept.map_or_else(ItemStack::map, Ok)?;
        stack.offset = if steps::is_checked() { stack.number % OFFSETS * OFFSET_BYTES } else { 0 };
        Ok(stack)
    }

    /// Keeps a stack for the thread's next items.
    pub(super) fn give_back(self) {
        // After the thread's variables, nothing is kept.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(self);
            }
        });
    }

    /// Returns whether an access to this address overflowed the stack.
    pub(super) fn is_overflow(&self, address: u64) -> bool {
        let start = self.start.addr().get() as u64;
        (start..start + FENCE_BYTES as u64).contains(&address)
    }

    /// Returns the addresses of the stack, without the fence.
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        let start = self.start.addr().get() as u64 + FENCE_BYTES as u64;
        start..start + STACK_BYTES as u64
    }

    fn map() -> io::Result<ItemStack> {
        let (nothing, all) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: this is a new mapping; the part above the fence is made accessible.
        unsafe {
            let start = libc::mmap(null_mut(), FENCE_BYTES + STACK_BYTES, nothing, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let fence = start as u64..start as u64 + FENCE_BYTES as u64;
            let start = NonNull::new_unchecked(start.cast::<u8>());
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let stack = ItemStack { start, number, offset: 0, _fenced: fences::register(fence) };
            match libc::mprotect(start.as_ptr().add(FENCE_BYTES).cast(), STACK_BYTES, all) {
                0 => Ok(stack),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    fn at(&self, offset: usize) -> StackPointer {
        self.start.addr().checked_add(offset).unwrap_or(NonZeroUsize::MAX)
    }
}

// SAFETY: the memory between limit and base belongs to this stack alone, is aligned to pages, and
// has a fence below.
unsafe impl Stack for ItemStack {
    fn base(&self) -> StackPointer {
        self.at(FENCE_BYTES + STACK_BYTES - self.offset)
    }

    fn limit(&self) -> StackPointer {
        self.at(FENCE_BYTES)
    }
}

impl Drop for ItemStack {
    fn drop(&mut self) {
        // SAFETY: `map` mapped the stack, and no code uses it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), FENCE_BYTES + STACK_BYTES) };
    }
}
