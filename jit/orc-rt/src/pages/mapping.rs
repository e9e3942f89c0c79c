//! Pages of this process.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

use super::{Placement, Protection, low};

/// Bytes of a huge page. Mappings of this size or more start at a multiple of it, so that the
/// kernel can use huge pages. Filling them costs less than a tenth, and code in them has fewer
/// misses in the instruction TLB.
const HUGE_PAGE: usize = 2 << 20;

/// Whole pages that belong to this value alone. Dropping it unmaps them.
#[derive(Debug)]
pub struct Mapping {
    address: usize,
    size: usize,
    /// Whether the pages are a file's, whose memory is given back with them.
    owns_file: bool,
}

/// Pages of a file.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// The offset of the pages in the file.
    pub offset: u64,
}

/// Drops mappings; adjacent ones are unmapped together.
pub(super) fn give_back(mut mappings: Vec<Mapping>) {
    mappings.sort_unstable_by_key(|mapping| mapping.address);
    let mut mappings = mappings.into_iter();
    let Some(mut last) = mappings.next() else { return };
    for mut mapping in mappings {
        if last.address + last.size == mapping.address && last.owns_file == mapping.owns_file {
            last.size += std::mem::take(&mut mapping.size);
        } else {
            last = mapping;
        }
    }
}

impl Mapping {
    /// Maps fresh zeroed pages of `size` bytes, a multiple of the page size. For 0 bytes nothing is
    /// mapped.
    ///
    /// # Errors
    /// The cause, as a text for people.
    pub fn new(
        size: usize,
        alignment: usize,
        placement: Placement,
        access: ProtFlags,
    ) -> Result<Self, String> {
        if size == 0 {
            return Ok(Self::from_range(alignment, size));
        }
        let alignment = if size < HUGE_PAGE { alignment } else { alignment.max(HUGE_PAGE) };
        match placement {
            Placement::Anywhere => {
                Self::map(size, alignment, access, MapFlags::empty()).map_err(|e| e.to_string())
            }
            Placement::Low => low::map(size, alignment, access),
        }
    }

    /// Maps `size` bytes at a multiple of `alignment`. `flags` are added to `MapFlags::PRIVATE`.
    pub(super) fn map(
        size: usize,
        alignment: usize,
        access: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Self> {
        let padded = size + alignment - rustix::param::page_size();
        // SAFETY: without a fixed address, the kernel replaces no mapping.
        let address = unsafe {
            mm::mmap_anonymous(std::ptr::null_mut(), padded, access, MapFlags::PRIVATE | flags)
        }?;
        let mut mapping = Self::from_range(address.expose_provenance(), padded);
        let mut aligned =
            mapping.split_off(mapping.address.next_multiple_of(alignment) - mapping.address);
        drop(aligned.split_off(size));
        Ok(aligned)
    }

    /// Maps exactly these pages if all of them are free.
    ///
    /// # Errors
    /// Every error of `mmap`, and `AlreadyExists`.
    pub fn map_at(address: usize, size: usize, access: ProtFlags) -> io::Result<Self> {
        let hint = std::ptr::without_provenance_mut(address);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: with this flag the kernel replaces no mapping. Kernels without the flag take the
        // address as a hint.
        let found = unsafe { mm::mmap_anonymous(hint, size, access, flags) }?;
        let mapping = Self::from_range(found.expose_provenance(), size);
        if mapping.address == address {
            Ok(mapping)
        } else {
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }

    /// Replaces the pages by pages of a file.
    ///
    /// # Errors
    /// Every error of `mmap`.
    pub fn replace_with(&mut self, source: Source<'_>, access: ProtFlags) -> io::Result<()> {
        if self.size == 0 {
            return Ok(());
        }
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the replaced pages belong to `self`, and `&mut` guarantees that they are not
        // borrowed.
        unsafe { mm::mmap(self.pointer(0), self.size, access, flags, source.file, source.offset) }?;
        Ok(())
    }

    /// Has the file's memory freed when the pages are dropped. `self` must be a mapping of a file.
    pub fn own_file(&mut self) {
        self.owns_file = true;
    }

    /// Frees the memory of these pages in the file, which would otherwise stay while any other part
    /// of the file is mapped. Only writable pages allow it.
    fn empty_file(&self) -> io::Result<()> {
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the pages belong to `self`, which is being dropped; their contents are not needed
        // any more.
        unsafe {
            mm::mprotect(self.pointer(0), self.size, access)?;
            mm::madvise(self.pointer(0), self.size, Advice::LinuxRemove)?;
        }
        Ok(())
    }

    /// Returns the address of the first page.
    pub fn address(&self) -> u64 {
        self.address as u64
    }

    /// Returns the total size of the pages in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the bytes of the pages.
    ///
    /// # Safety
    /// All pages must be readable and writable. No other code may write the file behind them, if
    /// there is one, meanwhile.
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages belong to `self`, which the slice borrows; the caller guarantees that
        // they are accessible. Without pages, the address is not null, and aligned for bytes.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(0).cast::<u8>(), self.size) }
    }

    /// Makes pages present that will all be written, which is cheaper than one fault for each. If
    /// memory is short, this returns an error, where a write would raise a signal.
    ///
    /// # Errors
    /// Every error of the kernel.
    pub fn populate(&mut self, range: Range<usize>) -> io::Result<()> {
        let advise = |advice| {
            // SAFETY: the range is within pages that belong to `self`, and neither advice changes
            // their contents.
            unsafe { mm::madvise(self.pointer(range.start), range.len(), advice) }
        };
        if range.len() >= HUGE_PAGE && advise(Advice::LinuxHugepage).is_err() {
            log::debug!("no huge pages for {:#x} bytes", range.len());
        }
        match advise(Advice::LinuxPopulateWrite) {
            Err(rustix::io::Errno::INVAL) => Ok(()), // before Linux 5.14: they come one at a time
            result => Ok(result?),
        }
    }

    /// Sets the protection of a range of the pages, and makes new instructions visible if it
    /// becomes executable.
    ///
    /// # Errors
    /// Every error of the kernel.
    pub fn protect(&mut self, range: Range<usize>, protection: Protection) -> io::Result<()> {
        let access = match protection {
            Protection::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
            Protection::Read => MprotectFlags::READ,
            Protection::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        // SAFETY: the range is within pages that belong to `self`, and `&mut` guarantees that they
        // are not borrowed.
        unsafe { mm::mprotect(self.pointer(range.start), range.len(), access) }?;
        if protection == Protection::ReadExecute {
            flush_instruction_cache(self.address + range.start..self.address + range.end);
        }
        Ok(())
    }

    /// Splits the mapping in two: `self` keeps the first `at` bytes, a multiple of the page size.
    pub fn split_off(&mut self, at: usize) -> Self {
        let mut rest = Self::from_range(self.address + at, self.size - at);
        rest.owns_file = self.owns_file;
        self.size = at;
        rest
    }

    fn from_range(address: usize, size: usize) -> Self {
        Self { address, size, owns_file: false }
    }

    fn pointer(&self, offset: usize) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.address + offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.size == 0 {
            return;
        }
        if let Err(error) = self.owns_file.then(|| self.empty_file()).transpose() {
            log::error!("{:#x} bytes of shared memory stay in use: {error}", self.size);
        }
        // SAFETY: the pages belong to `self` alone; the owner that ran code in them guarantees by
        // the drop that it has ended.
        if let Err(error) = unsafe { mm::munmap(self.pointer(0), self.size) } {
            log::error!("{:#x} bytes at {:#x} stay mapped: {error}", self.size, self.address);
        }
    }
}

#[cfg(target_arch = "aarch64")]
fn flush_instruction_cache(range: Range<usize>) {
    unsafe extern "C" {
        fn __clear_cache(start: *mut c_void, end: *mut c_void);
    }
    let [start, end] = [range.start, range.end].map(std::ptr::with_exposed_provenance_mut);
    // SAFETY: the caller has just made the pages readable; the compiler's runtime function needs no
    // more.
    unsafe { __clear_cache(start, end) };
}

/// Does nothing: on this architecture the caches for data and instructions agree by themselves.
#[cfg(not(target_arch = "aarch64"))]
fn flush_instruction_cache(_: Range<usize>) {}
