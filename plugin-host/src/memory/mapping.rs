//! Mappings between fences.

use crate::fences::{self, FencedMapping};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size of each fence: a kernel that overruns its buffer by some rows still faults.
pub(super) const FENCE_BYTES: usize = 64 << 10;
/// Most fenced mappings of the process. Each takes two of the kernel's areas; a process has at most
/// 65,530 areas, and the program needs the rest.
const MOST_FENCED: usize = 8192;
/// Alignment of mappings that lie in huge pages.
const HUGE_PAGE: usize = 2 << 20;
/// Least size of a mapping in huge pages, if the kernel has them.
const HUGE_BYTES: usize = 4 << 20;

/// Number of fenced mappings of the process.
static FENCED: AtomicUsize = AtomicUsize::new(0);

/// Readable and writable pages of zeros, with a fence on either side. Dropping the mapping unmaps
/// it; no code may use the pages afterwards.
#[derive(Debug)]
pub(super) struct Mapping {
    start: usize,
    bytes: usize,
    /// `None` above the limit of fenced mappings.
    fenced: Option<FencedMapping>,
}

impl Mapping {
    /// Maps at least `bytes` bytes at a multiple of `alignment`, a power of two. Omits fences that
    /// would take the last addresses or areas of the process.
    ///
    /// # Errors
    /// Errors of the kernel: `NOMEM` also without addresses left for the process.
    pub(super) fn new(bytes: usize, alignment: usize) -> Result<Mapping, Errno> {
        let page = rustix::param::page_size();
        let bytes = bytes.checked_next_multiple_of(page).ok_or(Errno::NOMEM)?;
        let alignment = alignment.max(page);
        let mapping = match bytes {
            HUGE_BYTES.. => Mapping::fenced(bytes, alignment.max(HUGE_PAGE))
                .or_else(|_| Mapping::fenced(bytes, alignment)),
            _ => Mapping::fenced(bytes, alignment),
        };
        let mapping = mapping.or_else(|_| Mapping::plain(bytes, alignment))?;
        if bytes >= HUGE_BYTES {
            mapping.prefer_huge_pages();
        }
        Ok(mapping)
    }

    /// Returns the first address.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Returns the address after the last byte, at which the fence starts.
    pub(super) fn end(&self) -> usize {
        self.start + self.bytes
    }

    /// Returns the memory of whole pages to the system. The pages are zero afterwards.
    pub(super) fn discard(&self, start: usize, bytes: usize) {
        let page = rustix::param::page_size();
        let (first, end) = (start.next_multiple_of(page), (start + bytes) / page * page);
        if first < end {
            // SAFETY: these are pages of the mapping that the caller no longer uses.
            let discarded =
                unsafe { madvise(first as *mut c_void, end - first, Advice::LinuxDontNeed) };
            if let Err(error) = discarded {
                log::debug!("{} bytes at {first:#x} stay in memory: {error}", end - first);
            }
        }
    }

    fn fenced(bytes: usize, alignment: usize) -> Result<Mapping, Errno> {
        if FENCED.fetch_add(1, Ordering::Relaxed) >= MOST_FENCED {
            FENCED.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::NOMEM);
        }
        let mapped = aligned(bytes, FENCE_BYTES, alignment, ProtFlags::empty());
        let mapped = mapped.and_then(|start| {
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: the range is a part of the new mapping.
            let opened = unsafe { mprotect(start as *mut c_void, bytes, access) };
            opened.inspect_err(|_| unmap(start - FENCE_BYTES, bytes + 2 * FENCE_BYTES))?;
            Ok(start)
        });
        let start = mapped.inspect_err(|_| _ = FENCED.fetch_sub(1, Ordering::Relaxed))?;
        let all = (start - FENCE_BYTES) as u64..(start + bytes + FENCE_BYTES) as u64;
        Ok(Mapping { start, bytes, fenced: Some(fences::register(all)) })
    }

    fn plain(bytes: usize, alignment: usize) -> Result<Mapping, Errno> {
        let start = aligned(bytes, 0, alignment, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Mapping { start, bytes, fenced: None })
    }

    /// Requests huge pages: fewer faults on first use, and fewer misses of the translation cache. A
    /// kernel without huge pages refuses harmlessly.
    fn prefer_huge_pages(&self) {
        let whole = self.bytes / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: these are the mapping's own pages, and the advice changes no contents.
        let _ = unsafe { madvise(self.start as *mut c_void, whole, Advice::LinuxHugepage) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let fence = match self.fenced.take() {
            Some(fenced) => {
                drop(fenced);
                FENCED.fetch_sub(1, Ordering::Relaxed);
                FENCE_BYTES
            }
            None => 0,
        };
        unmap(self.start - fence, self.bytes + 2 * fence);
    }
}

/// Maps `bytes` bytes at a multiple of `alignment`, with `margin` more bytes on either side.
/// Returns the address after the first margin.
fn aligned(
    bytes: usize,
    margin: usize,
    alignment: usize,
    access: ProtFlags,
) -> Result<usize, Errno> {
    let slack = alignment - rustix::param::page_size();
    let all = bytes.checked_add(2 * margin + slack).ok_or(Errno::NOMEM)?;
    // SAFETY: this is a new mapping.
    let found = unsafe { mmap_anonymous(null_mut(), all, access, MapFlags::PRIVATE)? } as usize;
    let start = (found + margin).next_multiple_of(alignment);
    let (before, behind) = (start - margin - found, found + all - (start + bytes + margin));
    unmap(found, before);
    unmap(start + bytes + margin, behind);
    Ok(start)
}

fn unmap(start: usize, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: these are pages of a mapping of this module that no code uses any more.
    if let Err(error) = unsafe { munmap(start as *mut c_void, bytes) } {
        log::error!("{bytes:#x} bytes at {start:#x} stay mapped: {error}");
    }
}
