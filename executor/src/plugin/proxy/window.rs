//! Memory shared by the program and the executor at the same addresses.

use std::io;
use std::sync::{Arc, Weak};

use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::arena::{Arena, Piece};
use crate::ranges::FreeRanges;

/// Candidate sizes of the reserved address range in bytes, largest first.
const SIZES: [u64; 3] = [1 << 40, 1 << 36, 1 << 33];
/// Bytes of a piece of staging memory.
pub(super) const STAGING: u64 = 4 << 20;
/// Bytes of addresses after each block without memory in either process: a kernel that runs past
/// the block's last page faults.
const FENCE: u64 = 64 << 10;
/// Number of pieces of staging memory kept for the next copies.
const KEPT: usize = 4;

/// A range of addresses reserved in both processes, and the record of its use. A dropped block
/// returns its range.
pub(super) struct Window {
    arena: Arc<Arena>,
    start: u64,
    bytes: u64,
    /// Free addresses.
    free: Mutex<FreeRanges>,
    staging: Mutex<Vec<Block>>,
    /// Blocks that a failed copy may still write.
    given_up: Mutex<Vec<Block>>,
}

/// Shared memory, mapped in this process. The executor maps it as well.
pub(super) struct Block {
    window: Weak<Window>,
    address: u64,
    piece: Piece,
    /// The function that unmaps the block in the executor, called on drop.
    unmap: Unmap,
}

/// A function that has the executor unmap a block: address and bytes.
pub(super) type Unmap = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A block for pieces of copies. Dropping it keeps the block for the next copy.
pub(super) struct Staging {
    block: Option<Block>,
}

impl Window {
    /// Reserves addresses that are free here and, according to `reserve`, in the executor.
    ///
    /// # Errors
    /// `OutOfResources` if there are no such addresses, and every error of `reserve`.
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
            // Kept until another range is found, so that the system does not offer this one again.
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

    /// Returns whether a range of addresses lies in the window.
    pub(super) fn has(&self, address: u64, bytes: u64) -> bool {
        address >= self.start && bytes <= self.bytes && address - self.start <= self.bytes - bytes
    }

    /// Allocates `bytes` bytes of shared memory, zero at first, at a multiple of `alignment`. `map`
    /// has the executor map it: address, offset in the file and bytes.
    ///
    /// # Errors
    /// `OutOfResources`, and every error of `map`.
    pub(super) fn block(
        self: &Arc<Self>,
        bytes: u64,
        alignment: u64,
        map: impl FnOnce(u64, u64, u64) -> Result<()>,
        unmap: &Unmap,
    ) -> Result<Block> {
        let failed = |error: io::Error| {
            let message = format!("{bytes} bytes of shared memory cannot be allocated: {error}");
            Error::new(ErrorCode::OutOfResources, message)
        };
        let piece = self.arena.take(bytes, 1).map_err(failed)?;
        let address = self
            .take(piece.bytes() + FENCE, alignment)
            .ok_or_else(|| failed(io::Error::from(io::ErrorKind::StorageFull)))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let (place, length) = (address as *mut std::ffi::c_void, piece.bytes() as usize);
        // SAFETY: the addresses are reserved by this window, and nothing else uses them.
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

    /// Returns a block of [`STAGING`] bytes: a used one if one is kept.
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

    /// Copies an image's bytes into the shared file.
    ///
    /// # Errors
    /// Every error of the arena and of mapping.
    pub(super) fn put(&self, content: &[u8]) -> io::Result<Arc<Piece>> {
        let piece = Arc::new(self.arena.take(content.len() as u64, 1)?);
        let mapped = piece.map()?;
        // SAFETY: the piece has at least `content.len()` bytes, and only this function knows it
        // yet.
        unsafe {
            let to = mapped.address().as_ptr();
            std::ptr::copy_nonoverlapping(content.as_ptr(), to, content.len());
        }
        Ok(piece)
    }

    /// Drops kept staging memory. The executor unmaps it unless the link is closing.
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
        // SAFETY: the addresses are the window's. Its blocks, which refer to it weakly, are gone or
        // were given up with it.
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
        // Without its window the addresses are unmapped already.
        let Some(window) = self.window.upgrade() else { return };
        if !window.arena.is_here() {
            return;
        }
        (self.unmap)(self.address, self.piece.bytes());
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let (place, length) = (self.address as *mut std::ffi::c_void, self.piece.bytes() as usize);
        // SAFETY: the block's addresses, which nothing uses any more, stay reserved by the window.
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

    /// Prevents another use of the block while the window lives.
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
        // Dropping a block calls the executor, which a thread that handles its messages must not
        // do. Surplus blocks are dropped by the next call of `staging`.
        window.staging.lock().push(block);
    }
}

/// A range of unused addresses. Dropping it releases the range.
struct Reserved {
    start: u64,
    bytes: u64,
}

impl Reserved {
    fn new(bytes: u64) -> rustix::io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so the mapping replaces no other.
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
                    // SAFETY: the byte belongs to the block.
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
