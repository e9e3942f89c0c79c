//! Memory shared by both sides of a connection: for each direction a ring of messages, and a slot
//! for the reply to each call.
//!
//! The other side may write anything into it at any time. So each number read here is checked
//! before use, a message is copied before it is parsed, and every wait also checks whether the
//! connection is over.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Number of slots of a direction. Replies to further calls use the stream.
pub(super) const SLOTS: usize = 256;

/// Greatest number of calls that one side can have under way: each may occupy a thread of the other
/// side.
pub(super) const MOST_CALLS: usize = 16 * SLOTS;

/// Greatest number of bytes of a reply in a slot; larger replies use the stream.
pub(super) const SLOT_CONTENT: usize = SLOT_BYTES - 64;

/// Bytes of a ring: a power of two.
pub(super) const RING_BYTES: usize = 1 << 18;

const SLOT_BYTES: usize = 4096;
const HEAD_BYTES: usize = 4096;
const DIRECTION_BYTES: usize = HEAD_BYTES + SLOTS * SLOT_BYTES + RING_BYTES;

/// Bytes of a link.
pub(super) const LINK_BYTES: usize = 2 * DIRECTION_BYTES;

/// A mapped link. Dropping it unmaps the memory.
#[derive(Debug)]
pub(super) struct Link {
    base: NonNull<u8>,
}

// SAFETY: the memory is used only by atomic operations and by copies.
unsafe impl Send for Link {}
// SAFETY: as for `Send`.
unsafe impl Sync for Link {}

/// The sender of a direction's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Controller,
    Executor,
}

impl Origin {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Controller => Self::Executor,
            Self::Executor => Self::Controller,
        }
    }
}

impl Link {
    /// Maps the first [`LINK_BYTES`] bytes of a shared file.
    pub(super) fn from_file(file: impl AsFd) -> rustix::io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so the mapping replaces no other.
        let base =
            unsafe { mmap(std::ptr::null_mut(), LINK_BYTES, access, MapFlags::SHARED, file, 0)? };
        Ok(Self { base: NonNull::new(base.cast()).expect("no mapping is at null") })
    }

    /// Creates a link in private memory; only its slots are used.
    pub(super) fn anonymous() -> rustix::io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so the mapping replaces no other.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), LINK_BYTES, access, MapFlags::PRIVATE)? };
        Ok(Self { base: NonNull::new(base.cast()).expect("no mapping is at null") })
    }

    /// Returns the memory of one direction.
    pub(super) fn direction(&self, from: Origin) -> Direction<'_> {
        let offset = match from {
            Origin::Controller => 0,
            Origin::Executor => DIRECTION_BYTES,
        };
        // SAFETY: the mapping has both directions.
        Direction { base: unsafe { self.base.add(offset) }, link: std::marker::PhantomData }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no borrow of it remains.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), LINK_BYTES) };
    }
}

/// The memory of one direction.
#[derive(Clone, Copy)]
pub(super) struct Direction<'a> {
    base: NonNull<u8>,
    link: std::marker::PhantomData<&'a Link>,
}

impl<'a> Direction<'a> {
    /// Returns the number of bytes put into the ring.
    pub(super) fn tail(self) -> &'a AtomicU32 {
        self.word(0)
    }

    /// Returns the number of bytes taken out of the ring.
    pub(super) fn head(self) -> &'a AtomicU32 {
        self.word(64)
    }

    /// Returns the word with the state of the receiving side: a thread watches the ring or will, or
    /// no thread does. In the first case the sender need not wake a thread.
    pub(super) fn attention(self) -> &'a AtomicU32 {
        self.word(128)
    }

    /// Returns the count of wake-ups. Threads of the receiving side sleep until it changes.
    pub(super) fn bell(self) -> &'a AtomicU32 {
        self.word(132)
    }

    /// Returns the word that is nonzero while the sending side sleeps until `head` changes.
    pub(super) fn sender_sleeps(self) -> &'a AtomicU32 {
        self.word(192)
    }

    /// Returns the word of a slot's state.
    pub(super) fn slot_state(self, slot: usize) -> &'a AtomicU32 {
        self.word(self.slot(slot))
    }

    /// Returns the words of a slot's reply: its size in bytes, and whether it is an error.
    pub(super) fn slot_reply(self, slot: usize) -> (&'a AtomicU32, &'a AtomicU32) {
        (self.word(self.slot(slot) + 4), self.word(self.slot(slot) + 8))
    }

    /// Copies a reply into a slot.
    pub(super) fn write_slot(self, slot: usize, content: &[u8]) {
        assert!(content.len() <= SLOT_CONTENT);
        // SAFETY: a slot has room for that many bytes after its first 64 bytes.
        unsafe {
            let to = self.base.add(self.slot(slot) + 64);
            std::ptr::copy_nonoverlapping(content.as_ptr(), to.as_ptr(), content.len());
        }
    }

    /// Copies a reply out of a slot.
    pub(super) fn read_slot(self, slot: usize, size: usize) -> Vec<u8> {
        let size = size.min(SLOT_CONTENT);
        let mut content = Vec::with_capacity(size);
        // SAFETY: a slot has that many bytes after its first 64 bytes, and the vector has room for
        // them.
        unsafe {
            let from = self.base.add(self.slot(slot) + 64);
            std::ptr::copy_nonoverlapping(from.as_ptr(), content.as_mut_ptr(), size);
            content.set_len(size);
        }
        content
    }

    /// Copies bytes into the ring at an offset; they must fit before its end.
    pub(super) fn write_ring(self, at: usize, bytes: &[u8]) {
        assert!(at <= RING_BYTES && bytes.len() <= RING_BYTES - at);
        // SAFETY: the range is within the ring, as asserted above.
        unsafe {
            let to = self.ring().add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len());
        }
    }

    /// Copies bytes out of the ring.
    pub(super) fn read_ring(self, at: usize, bytes: &mut [u8]) {
        assert!(at <= RING_BYTES && bytes.len() <= RING_BYTES - at);
        // SAFETY: the range is within the ring, as asserted above.
        unsafe {
            let from = self.ring().add(at);
            std::ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), bytes.len());
        }
    }

    fn ring(self) -> NonNull<u8> {
        // SAFETY: the ring follows the slots in the mapping.
        unsafe { self.base.add(HEAD_BYTES + SLOTS * SLOT_BYTES) }
    }

    fn slot(self, slot: usize) -> usize {
        assert!(slot < SLOTS);
        HEAD_BYTES + slot * SLOT_BYTES
    }

    fn word(self, offset: usize) -> &'a AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset < DIRECTION_BYTES);
        // SAFETY: an aligned word of the mapping, which lives as long as the returned reference.
        // Both processes use the word by atomic operations only.
        unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() }
    }
}

const _: () = assert!(RING_BYTES.is_power_of_two() && NonZeroUsize::new(LINK_BYTES).is_some());
