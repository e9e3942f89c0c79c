//! Memory shared by a controller and its executor: an unnamed file of which both map pieces.
//!
//! The controller owns the file. The controller passes it to the executor once, in the greeting;
//! afterwards an offset in the file names a piece.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use crate::ranges::FreeRanges;
use crate::rpc::{CreatorProcess, Transport};

/// Candidate sizes of the file in bytes, in order of preference. The file is sparse: only used
/// pages take memory.
const SIZES: [u64; 4] = [1 << 42, 1 << 38, 1 << 34, 1 << 31];
/// Smallest number of bytes of an arena beyond [`Transport::LINK_BYTES`].
const LEAST: u64 = 1 << 20;

/// A shared file and the record of its free ranges. Any thread may use it.
#[derive(Debug)]
pub struct Arena {
    file: OwnedFd,
    size: u64,
    /// Free ranges, as offsets in the file.
    free: Mutex<FreeRanges>,
    creator: CreatorProcess,
}

/// A range of pages of an arena, zero at first. Dropping the piece gives the pages back; the caller
/// must not use them afterwards.
#[derive(Debug)]
pub struct Piece {
    arena: Arc<Arena>,
    offset: u64,
    bytes: u64,
    stays: AtomicBool,
}

/// A mapping of a piece into this process for reading and writing. Dropping it unmaps the pages.
#[derive(Debug)]
pub struct Mapped {
    address: NonNull<u8>,
    /// Offsets of the parts that are still mapped.
    ranges: Vec<Range<usize>>,
    piece: Arc<Piece>,
}

// SAFETY: the mapping is plain memory, which any thread may unmap.
unsafe impl Send for Mapped {}
// SAFETY: a shared reference gives nothing but the address and the piece.
unsafe impl Sync for Mapped {}

impl Arena {
    /// Creates an arena. Its first [`Transport::LINK_BYTES`] belong to the connection.
    ///
    /// # Errors
    /// `FileTooLarge` if the process's limit of file sizes (`ulimit -f`) leaves no room, and every
    /// error of creating the file.
    pub fn new() -> io::Result<Arc<Self>> {
        let sizes = allowed(getrlimit(Resource::Fsize).current)?;
        let create = |flags| rustix::fs::memfd_create("longshore", MemfdFlags::CLOEXEC | flags);
        let sealing = MemfdFlags::ALLOW_SEALING;
        let file = match create(MemfdFlags::EXEC | sealing) {
            Err(rustix::io::Errno::INVAL) => create(sealing)?, // before Linux 6.3
            file => file?,
        };
        let mut last = rustix::io::Errno::NOSPC;
        let size = sizes
            .into_iter()
            .find(|size| ftruncate(&file, *size).inspect_err(|error| last = *error).is_ok());
        let size = size.ok_or(last)?;
        // Without the seals a holder of the file could truncate pages that this process uses.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let start = Transport::LINK_BYTES as u64;
        let free = Mutex::new(FreeRanges::new(start, size - start));
        Ok(Arc::new(Self { file, size, free, creator: CreatorProcess::here() }))
    }

    /// Returns the file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the size of the file in bytes, used or not.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether this process created the arena. A forked child did not, and the pages belong
    /// to its parent.
    pub fn is_here(&self) -> bool {
        self.creator.is_here()
    }

    /// Takes pages for `bytes` bytes, at a multiple of `alignment`, which is a power of two.
    ///
    /// # Errors
    /// `StorageFull` if no free range is large enough.
    pub fn take(self: &Arc<Self>, bytes: u64, alignment: u64) -> io::Result<Piece> {
        let page = rustix::param::page_size() as u64;
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let bytes = bytes.max(1).checked_next_multiple_of(page).ok_or_else(full)?;
        let alignment = alignment.max(page);
        let offset = self.free.lock().take(bytes, alignment).ok_or_else(full)?;
        Ok(Piece { arena: Arc::clone(self), offset, bytes, stays: AtomicBool::new(false) })
    }

    fn give_back(&self, offset: u64, bytes: u64) {
        if !self.is_here() {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = fallocate(&self.file, flags, offset, bytes) {
            // The range stays taken: its old contents would appear where zeroes are promised.
            log::warn!("{bytes:#x} bytes of shared memory cannot be given back: {error}");
            return;
        }
        self.free.lock().give_back(offset, bytes);
    }
}

/// Returns the sizes to try under a limit of file sizes. The kernel kills a process that makes a
/// file larger than its limit.
///
/// # Errors
/// `FileTooLarge` for a limit below the smallest size.
fn allowed(limit: Option<u64>) -> io::Result<Vec<u64>> {
    let limit = limit.unwrap_or(u64::MAX);
    let page = rustix::param::page_size() as u64;
    let largest = (limit < SIZES[0]).then_some(limit / page * page);
    let sizes = largest.into_iter().chain(SIZES.into_iter().filter(|size| *size <= limit));
    let least = Transport::LINK_BYTES as u64 + LEAST;
    let sizes: Vec<_> = sizes.filter(|size| *size >= least).collect();
    if sizes.is_empty() {
        let message = format!(
            "the limit of file sizes is {limit} bytes (`ulimit -f`), expected at least {least} bytes for shared memory"
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(sizes)
}

impl Piece {
    /// Returns the piece's offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the piece's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Maps the piece for reading and writing.
    ///
    /// # Errors
    /// Every error of `mmap`.
    pub fn map(self: &Arc<Self>) -> io::Result<Mapped> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (length, file) = (self.bytes as usize, &self.arena.file);
        // SAFETY: the kernel chooses the address, so the mapping replaces no other.
        let address = unsafe {
            mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, self.offset)?
        };
        let address = NonNull::new(address.cast()).expect("no mapping is at null");
        let ranges = std::iter::once(0..length).collect();
        Ok(Mapped { address, ranges, piece: Arc::clone(self) })
    }
}

impl Piece {
    /// Keeps the pages in use until the arena is dropped.
    pub fn leave(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.stays.load(Ordering::Relaxed) {
            self.arena.give_back(self.offset, self.bytes);
        }
    }
}

impl Mapped {
    /// Returns the address of the mapping in this process.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Returns the mapped piece.
    pub fn piece(&self) -> &Arc<Piece> {
        &self.piece
    }
}

impl Mapped {
    /// Unmaps a part of the mapping: whole pages, as offsets in bytes.
    ///
    /// # Panics
    /// Panics if `part` is not inside the mapping or not aligned to pages.
    pub fn unmap(&mut self, part: Range<usize>) {
        let page = rustix::param::page_size();
        assert!(part.start <= part.end && part.end <= self.piece.bytes as usize);
        assert!(part.start.is_multiple_of(page) && part.end.is_multiple_of(page));
        let ranges = std::mem::take(&mut self.ranges);
        for range in ranges {
            let cut = range.start.max(part.start)..range.end.min(part.end);
            if cut.is_empty() {
                self.ranges.push(range);
                continue;
            }
            let rest = [range.start..cut.start, cut.end..range.end];
            self.ranges.extend(rest.into_iter().filter(|rest| !rest.is_empty()));
            self.release(&cut);
        }
    }

    fn release(&self, range: &Range<usize>) {
        // SAFETY: the range is mapped by this mapping, and the users of its address are done with
        // it.
        let unmapped =
            unsafe { munmap(self.address.as_ptr().add(range.start).cast(), range.len()) };
        if let Err(error) = unmapped {
            log::error!("{:#x} bytes of shared memory stay mapped: {error}", range.len());
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.ranges.iter().for_each(|range| self.release(range));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(mapped: &Mapped, at: usize) -> *mut u8 {
        assert!(at < mapped.piece().bytes() as usize);
        mapped.address().as_ptr().wrapping_add(at)
    }

    #[test]
    fn pieces_do_not_overlap_and_are_aligned() {
        let arena = Arena::new().unwrap();
        let sizes = [1, 5000, 1 << 21, 4096, 70_000];
        let pieces: Vec<Piece> =
            sizes.iter().map(|size| arena.take(*size, 1 << 16).unwrap()).collect();
        for (index, piece) in pieces.iter().enumerate() {
            assert!(piece.offset().is_multiple_of(1 << 16));
            assert!(piece.offset() >= Transport::LINK_BYTES as u64);
            let end = piece.offset() + piece.bytes();
            let others = pieces.iter().skip(index + 1);
            assert!(
                others
                    .into_iter()
                    .all(|o| o.offset() >= end || o.offset() + o.bytes() <= piece.offset())
            );
        }
    }

    #[test]
    fn freed_memory_is_reused_as_one_block_of_zeros() {
        let arena = Arena::new().unwrap();
        let whole = FreeRanges::new(
            Transport::LINK_BYTES as u64,
            arena.size() - Transport::LINK_BYTES as u64,
        );
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let mut pieces: Vec<Option<Arc<Piece>>> =
                (0..3).map(|_| Some(Arc::new(arena.take(8192, 1).unwrap()))).collect();
            for piece in pieces.iter().flatten() {
                let mapped = piece.map().unwrap();
                // SAFETY: the byte belongs to a live mapping.
                unsafe {
                    assert_eq!(*byte(&mapped, 8191), 0);
                    *byte(&mapped, 8191) = 7;
                }
            }
            order.into_iter().for_each(|index| pieces[index] = None);
            assert_eq!(*arena.free.lock(), whole);
        }
    }

    #[test]
    fn two_mappings_of_a_piece_are_the_same_memory() {
        let arena = Arena::new().unwrap();
        let piece = Arc::new(arena.take(1, 1).unwrap());
        let (one, other) = (piece.map().unwrap(), piece.map().unwrap());
        // SAFETY: the bytes belong to live mappings.
        unsafe {
            *byte(&one, 5) = 9;
            assert_eq!(*byte(&other, 5), 9);
        }
    }

    #[test]
    fn a_part_that_was_unmapped_is_not_touched_any_more() {
        let arena = Arena::new().unwrap();
        let page = rustix::param::page_size();
        let mut mapped = Arc::new(arena.take(5 * page as u64, 1).unwrap()).map().unwrap();
        mapped.unmap(page..2 * page);
        assert_eq!(mapped.ranges, [0..page, 2 * page..5 * page]);
        mapped.unmap(0..3 * page);
        assert_eq!(mapped.ranges.as_slice(), std::slice::from_ref(&(3 * page..5 * page)));
        // SAFETY: the byte is still mapped.
        unsafe { *byte(&mapped, 3 * page) = 1 };
        mapped.unmap(0..5 * page);
        assert!(mapped.ranges.is_empty());
    }

    #[test]
    fn no_process_can_shorten_the_file() {
        let arena = Arena::new().unwrap();
        assert_eq!(ftruncate(arena.file(), 0), Err(rustix::io::Errno::PERM));
    }

    #[test]
    fn an_arena_is_as_large_as_files_may_be() {
        assert_eq!(allowed(None).unwrap(), SIZES);
        assert_eq!(allowed(Some(SIZES[0])).unwrap(), SIZES);
        let page = rustix::param::page_size() as u64;
        assert_eq!(allowed(Some((1 << 33) + 1)).unwrap(), [1 << 33, 1 << 31]);
        assert_eq!(allowed(Some(100 * (1 << 20) + page / 2)).unwrap(), [100 * (1 << 20)]);
        let error = allowed(Some(4096)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("4096 bytes (`ulimit -f`)"), "{error}");
    }

    #[test]
    fn a_message_that_does_not_fit_is_an_error() {
        let arena = Arena::new().unwrap();
        for bytes in [u64::MAX, arena.size()] {
            assert_eq!(arena.take(bytes, 1).unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }
}
