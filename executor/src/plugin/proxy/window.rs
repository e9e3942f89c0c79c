//! Memory that the program and the executor have together, at the same addresses.

use std::io;
use std::sync::{Arc, Weak};

use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::arena::{Arena, Piece};
use crate::ranges::FreeRanges;

/// How many bytes of addresses are kept.
const SIZES: [u64; 3] = [1 << 40, 1 << 36, 1 << 33];
/// The bytes of a piece of staging memory.
pub(super) const STAGING: u64 = 4 << 20;
/// Bytes of addresses behind each block at which neither process has anything: a kernel that runs past the block's last page
/// faults.
const FENCE: u64 = 64 << 10;
/// So many pieces of staging memory are kept for the next copy.
const KEPT: usize = 4;

/// A range of addresses that is kept in both processes, and which of it is in use. Blocks in it go back when they are dropped.
pub(super) struct Window {
    arena: Arc<Arena>,
    start: u64,
    bytes: u64,
    /// Of its addresses.
    free: Mutex<FreeRanges>,
    staging: Mutex<Vec<Block>>,
    /// What a copy that has failed may still write.
    given_up: Mutex<Vec<Block>>,
}

/// Shared memory, mapped here. The executor maps it as well.
pub(super) struct Block {
    window: Weak<Window>,
    address: u64,
    piece: Piece,
    /// What unmaps it in the executor, when this is dropped.
    unmap: Unmap,
}

/// Has the executor unmap a block.
pub(super) type Unmap = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A block for pieces of copies, which is kept for the next copy when this is dropped.
pub(super) struct Staging {
    block: Option<Block>,
}

impl Window {
    /// Keeps addresses that are free here and, as `reserve` says, in the executor.
    ///
    /// # Errors
    /// `OutOfResources` if there are none; those of `reserve`.
    pub(super) fn new(
        arena: &Arc<Arena>,
        reserve: impl Fn(u64, u64) -> Result<bool>,
    ) -> Result<Arc<Self>> {
        let mut refused = Vec::new();
        let mut found = None;
        for bytes in SIZES.into_iter().flat_map(|bytes| [bytes; 4]) {
            let Ok(range) = Reserved::new(bytes) else { continue };
            if reserve(range.start, bytes)? {
                found = Some(range);
                break;
            }
            // Kept until there is another, so that the system does not offer it again.
            refused.push(range);
        }
        let range = found.ok_or_else(|| {
            Error::new(ErrorCode::OutOfResources, "no addresses are free in both processes")
        })?;
        let (start, bytes) = (range.start, range.bytes);
        std::mem::forget(range);
        let free = Mutex::new(FreeRanges::new(start, bytes));
        let (arena, staging, given_up) = (Arc::clone(arena), Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { arena, start, bytes, free, staging, given_up }))
    }

    /// Whether a range of addresses is part of it.
    pub(super) fn has(&self, address: u64, bytes: u64) -> bool {
        address >= self.start && bytes <= self.bytes && address - self.start <= self.bytes - bytes
    }

    /// Shared memory of so many bytes, at a multiple of `alignment`, zero at first. `map` has the executor map it: address, offset
    /// in the file and bytes.
    ///
    /// # Errors
    /// `OutOfResources`; those of `map`.
    pub(super) fn block(
        self: &Arc<Self>,
        bytes: u64,
        alignment: u64,
        map: impl FnOnce(u64, u64, u64) -> Result<()>,
        unmap: &Unmap,
    ) -> Result<Block> {
        let failed = |error: io::Error| {
            let message = format!("{bytes} bytes of memory for two processes: {error}");
            Error::new(ErrorCode::OutOfResources, message)
        };
        let piece = self.arena.take(bytes, 1).map_err(failed)?;
        let address = self
            .take(piece.bytes() + FENCE, alignment)
            .ok_or_else(|| failed(io::Error::from(io::ErrorKind::StorageFull)))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let (place, length) = (address as *mut std::ffi::c_void, piece.bytes() as usize);
        // SAFETY: addresses that this window keeps, and that nothing else uses.
        let mapped =
            unsafe { mmap(place, length, access, flags, self.arena.file(), piece.offset()) };
        if let Err(error) = mapped {
            self.give_back(address, piece.bytes() + FENCE);
            return Err(failed(error.into()));
        }
        let block =
            Block { window: Arc::downgrade(self), address, piece, unmap: Arc::clone(unmap) };
        map(address, block.piece.offset(), block.piece.bytes())?;
        Ok(block)
    }

    /// A block of [`STAGING`] bytes, one that was used before if there is one.
    ///
    /// # Errors
    /// As for [`Window::block`].
    pub(super) fn staging(
        self: &Arc<Self>,
        map: impl FnOnce(u64, u64, u64) -> Result<()>,
        unmap: &Unmap,
    ) -> Result<Staging> {
        let (kept, surplus) = {
            let mut staging = self.staging.lock();
            let kept = staging.pop();
            let surplus = staging.len().saturating_sub(KEPT);
            (kept, staging.drain(..surplus).collect::<Vec<_>>())
        };
        drop(surplus);
        let block = match kept {
            Some(block) => block,
            None => self.block(STAGING, 1, map, unmap)?,
        };
        Ok(Staging { block: Some(block) })
    }

    /// An image's bytes in the shared file.
    ///
    /// # Errors
    /// Those of the arena and of mapping.
    pub(super) fn put(&self, content: &[u8]) -> io::Result<Arc<Piece>> {
        let piece = Arc::new(self.arena.take(content.len() as u64, 1)?);
        let mapped = piece.map()?;
        // SAFETY: the piece has at least as many bytes and is used by nobody else as yet.
        unsafe {
            let to = mapped.address().as_ptr();
            std::ptr::copy_nonoverlapping(content.as_ptr(), to, content.len());
        }
        Ok(piece)
    }

    /// Forgets staging memory that is kept. The executor is told while it can be.
    pub(super) fn drop_staging(&self) {
        let kept = std::mem::take(&mut *self.staging.lock());
        drop(kept);
    }

    fn take(&self, bytes: u64, alignment: u64) -> Option<u64> {
        let alignment = alignment.max(rustix::param::page_size() as u64);
        self.free.lock().take(bytes, alignment)
    }

    fn give_back(&self, address: u64, bytes: u64) {
        self.free.lock().give_back(address, bytes);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the addresses are the window's; its blocks, of which it knows, are gone or have been given up with it.
        let _ = unsafe { munmap(self.start as *mut std::ffi::c_void, self.bytes as usize) };
    }
}

impl Block {
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Without its window the addresses are gone already.
        let Some(window) = self.window.upgrade() else { return };
        if !window.arena.is_here() {
            return;
        }
        (self.unmap)(self.address, self.piece.bytes());
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let (place, length) = (self.address as *mut std::ffi::c_void, self.piece.bytes() as usize);
        // SAFETY: the block's addresses, which nothing uses any more; the window keeps them.
        if unsafe { mmap_anonymous(place, length, ProtFlags::empty(), flags) }.is_ok() {
            window.give_back(self.address, self.piece.bytes() + FENCE);
        }
    }
}

impl Staging {
    pub(super) fn address(&self) -> u64 {
        self.block.as_ref().expect("taken by drop alone").address()
    }

    pub(super) fn bytes(&self) -> u64 {
        STAGING
    }

    /// Keeps it from being used again, as long as the window lives.
    pub(super) fn give_up(mut self) {
        if let Some(block) = self.block.take()
            && let Some(window) = block.window.upgrade()
        {
            window.given_up.lock().push(block);
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else { return };
        let Some(window) = block.window.upgrade() else { return };
        if !window.arena.is_here() {
            return;
        }
        // Giving a block up calls the executor, which whoever takes its messages must not: that is done when the next is wanted.
        window.staging.lock().push(block);
    }
}

/// Addresses that nothing uses, until this is dropped.
struct Reserved {
    start: u64,
    bytes: u64,
}

impl Reserved {
    fn new(bytes: u64) -> rustix::io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes as usize, ProtFlags::empty(), flags)?
        };
        Ok(Self { start: start as u64, bytes })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing uses it.
        let _ = unsafe { munmap(self.start as *mut std::ffi::c_void, self.bytes as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Arc<Window> {
        let refusals = std::sync::atomic::AtomicUsize::new(2);
        let reserve = |_, _| {
            let order = std::sync::atomic::Ordering::Relaxed;
            Ok(refusals.fetch_update(order, order, |left| left.checked_sub(1)).is_err())
        };
        Window::new(&Arena::new().unwrap(), reserve).unwrap()
    }

    #[test]
    fn blocks_are_aligned_apart_zero_and_come_back() {
        let window = window();
        let unmap: Unmap = Arc::new(|_, _| {});
        for _ in 0..2 {
            let blocks: Vec<Block> = [(1, 1), (9000, 1 << 16), (1 << 20, 1 << 21)]
                .into_iter()
                .map(|(bytes, alignment)| {
                    let block = window.block(bytes, alignment, |_, _, _| Ok(()), &unmap).unwrap();
                    assert!(
                        block.address().is_multiple_of(alignment) && block.piece.bytes() >= bytes
                    );
                    assert!(window.has(block.address(), block.piece.bytes()));
                    let last = (block.address() + bytes - 1) as *mut u8;
                    // SAFETY: a byte of the block.
                    unsafe {
                        assert_eq!(*last, 0);
                        *last = 5;
                    }
                    block
                })
                .collect();
            drop(blocks);
            assert_eq!(*window.free.lock(), FreeRanges::new(window.start, window.bytes));
        }
        assert!(!window.has(window.start + window.bytes, 1) && !window.has(window.start - 1, 1));
    }

    #[test]
    fn no_block_begins_right_behind_another() {
        let (window, unmap): (_, Unmap) = (window(), Arc::new(|_, _| {}));
        let block = || window.block(4096, 1, |_, _, _| Ok(()), &unmap).unwrap();
        let (first, second) = (block(), block());
        assert!(second.address() >= first.address() + first.piece.bytes() + FENCE);
    }

    #[test]
    fn staging_memory_is_used_again() {
        let window = window();
        let unmap: Unmap = Arc::new(|_, _| {});
        let first = window.staging(|_, _, _| Ok(()), &unmap).unwrap().address();
        let mapped = |_, _, _| panic!("it is mapped already");
        assert_eq!(window.staging(mapped, &unmap).unwrap().address(), first);
    }
}
