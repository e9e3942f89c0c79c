//! Memory of a device: what is allocated and what is pinned.

use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result, Span};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Least alignment of an allocation: a cache line, so that no two share one.
const LEAST_ALIGNMENT: usize = 64;
/// From this size on an allocation lies in huge pages, where the kernel has them.
const LARGE_BYTES: u64 = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;
/// Up to here an address is near an allocation.
const NEAR_BYTES: u64 = 1 << 30;
/// Greatest alignment of an allocation: the largest page of x86-64.
const GREATEST_ALIGNMENT: u64 = 1 << 30;

/// The live allocations of a device. All kinds are ordinary memory: the CPU reaches it wherever it
/// is, and nothing on this device needs pages to be locked, so none are and `RLIMIT_MEMLOCK` does
/// not matter. New memory has no particular contents.
///
/// What is still allocated when the table is dropped is freed.
#[derive(Default)]
pub(crate) struct Allocations {
    live: Mutex<HashMap<u64, Allocation>>,
}

struct Allocation {
    kind: MemoryKind,
    layout: Layout,
    /// It is the host's memory, which is only known here.
    is_adopted: bool,
}

impl Allocation {
    /// # Safety
    /// It was in the table under this address, and nothing uses it any more.
    unsafe fn free(self, address: u64) {
        if !self.is_adopted {
            // SAFETY: it was allocated with this layout; the rest is promised by the caller.
            unsafe { dealloc(address as *mut u8, self.layout) }
        }
    }
}

impl Allocations {
    /// Allocates at a multiple of `alignment`, a power of two. `limit` is how many bytes the
    /// device has.
    ///
    /// # Errors
    /// `OutOfResources` if there is not enough, `Unsupported` for an alignment above 1 GiB.
    pub(crate) fn allocate(
        &self,
        kind: MemoryKind,
        bytes: u64,
        alignment: u64,
        limit: u64,
    ) -> Result<u64> {
        if alignment > GREATEST_ALIGNMENT {
            let message = format!(
                "an allocation at a multiple of {alignment} bytes, expected at most \
                 {GREATEST_ALIGNMENT}"
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if bytes > limit {
            return Err(out_of_memory(bytes, limit));
        }
        let least = if bytes >= LARGE_BYTES { HUGE_PAGE } else { LEAST_ALIGNMENT };
        let alignment = (alignment as usize).max(least);
        let layout = Layout::from_size_align(bytes.max(1) as usize, alignment);
        let layout = layout.map_err(|_| out_of_memory(bytes, limit))?;
        let mut live = self.lock();
        live.try_reserve(1).map_err(|_| out_of_memory(bytes, limit))?;
        // SAFETY: the layout has at least one byte.
        let address = unsafe { alloc(layout) } as u64;
        if address == 0 {
            return Err(out_of_memory(bytes, limit));
        }
        if bytes >= LARGE_BYTES {
            prefer_huge_pages(address, bytes);
        }
        live.insert(address, Allocation { kind, layout, is_adopted: false });
        Ok(address)
    }

    /// Makes memory of the host an allocation, until it is freed.
    ///
    /// # Errors
    /// `InvalidArgument` if some of it is one, or it is no range.
    pub(crate) fn adopt(&self, kind: MemoryKind, memory: Span) -> Result<()> {
        let (address, bytes) = (memory.address(), memory.bytes());
        let wrong = |why: &str| {
            let message = format!("{bytes} bytes at {address:#x} cannot be adopted: {why}");
            Error::new(ErrorCode::InvalidArgument, message)
        };
        let layout = Layout::from_size_align(bytes as usize, 1);
        let layout = layout.map_err(|_| wrong("they are no range of memory"))?;
        let end = address.checked_add(bytes).filter(|end| *end > address);
        let end = end.ok_or_else(|| wrong("they are no range of memory"))?;
        let mut live = self.lock();
        let overlaps = |(start, found): (&u64, &Allocation)| {
            *start < end && start + found.layout.size() as u64 > address
        };
        if live.iter().any(overlaps) {
            return Err(wrong("some of them are an allocation"));
        }
        live.insert(address, Allocation { kind, layout, is_adopted: true });
        Ok(())
    }

    /// Frees an allocation.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` is not the start of a live allocation of this kind.
    pub(crate) fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        let mut live = self.lock();
        let Some(found) = live.get(&address) else {
            let message = format!("{address:#x} is not the address of a live allocation");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        };
        if found.kind != kind {
            let message = format!(
                "{address:#x} is an allocation of kind {:?}, freed as {kind:?}",
                found.kind
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let found = live.remove(&address);
        drop(live);
        if let Some(found) = found {
            // SAFETY: whoever removed it from the table frees it.
            unsafe { found.free(address) }
        }
        Ok(())
    }

    /// Where an address lies, in words, seen from the allocation that is nearest to it; nothing if none is near.
    pub(crate) fn place_of(&self, address: u64) -> Option<String> {
        let live = self.lock();
        let distance = |start: u64, bytes: u64| match address {
            before if before < start => start - before,
            inside if inside - start < bytes => 0,
            behind => behind - start - bytes,
        };
        let sizes = live.iter().map(|(start, found)| (*start, found.layout.size() as u64));
        let (start, bytes) = sizes.min_by_key(|(start, bytes)| distance(*start, *bytes))?;
        let far = distance(start, bytes);
        if far > NEAR_BYTES {
            return None;
        }
        let place = match far {
            0 if address >= start && address - start < bytes => "inside".to_owned(),
            _ if address < start => format!("{far} bytes before"),
            _ => format!("{far} bytes past the end of"),
        };
        Some(format!("{place} the allocation of {bytes} bytes at {start:#x}"))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Allocation>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Allocations {
    fn drop(&mut self) {
        for (address, allocation) in self.lock().drain() {
            // SAFETY: it is in the table, so it was not freed.
            unsafe { allocation.free(address) }
        }
    }
}

/// Asks for huge pages: fewer faults on first use, and fewer misses of the translation cache. A
/// kernel that has none says no, which is no harm.
fn prefer_huge_pages(address: u64, bytes: u64) {
    let whole = bytes as usize / HUGE_PAGE * HUGE_PAGE;
    let start = address as *mut std::ffi::c_void;
    // SAFETY: the range was just allocated and is used by nobody else; the advice changes no
    // contents.
    let _ = unsafe { rustix::mm::madvise(start, whole, rustix::mm::Advice::LinuxHugepage) };
}

/// The pinned ranges of a device. Pinning only remembers them: see [`Allocations`].
#[derive(Default)]
pub(crate) struct PinnedRanges {
    /// End by start; no two overlap.
    ranges: Mutex<BTreeMap<u64, u64>>,
}

impl PinnedRanges {
    /// Remembers a range and answers its address.
    ///
    /// # Errors
    /// `InvalidArgument` if it is empty, wraps around, or overlaps a pinned one.
    pub(crate) fn pin(&self, range: Span) -> Result<u64> {
        let (start, bytes) = (range.address(), range.bytes());
        let end = start.checked_add(bytes).filter(|end| *end > start && start != 0);
        let end = end.ok_or_else(|| {
            let message = format!("{bytes} bytes at {start:#x} are no range of memory");
            Error::new(ErrorCode::InvalidArgument, message)
        })?;
        let mut ranges = self.lock();
        let before = ranges.range(..end).next_back();
        if let Some((pinned, pinned_end)) = before.filter(|(_, pinned_end)| **pinned_end > start) {
            let message = format!(
                "{start:#x}..{end:#x} overlaps {pinned:#x}..{pinned_end:#x}, which is pinned"
            );
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        ranges.insert(start, end);
        Ok(start)
    }

    /// Forgets a range.
    ///
    /// # Errors
    /// `InvalidArgument` if none was pinned at `address`.
    pub(crate) fn unpin(&self, address: u64) -> Result<()> {
        self.lock().remove(&address).map(drop).ok_or_else(|| {
            let message = format!("nothing is pinned at {address:#x}");
            Error::new(ErrorCode::InvalidArgument, message)
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cold]
fn out_of_memory(bytes: u64, limit: u64) -> Error {
    let message = format!("no memory for an allocation of {bytes} bytes; the device has {limit}");
    Error::new(ErrorCode::OutOfResources, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_seen_from_the_nearest_allocation() {
        let allocations = Allocations::default();
        let start = allocations.allocate(MemoryKind::Device, 1000, 64, 1 << 40).unwrap();
        let place = |address: u64| allocations.place_of(address);
        let of = format!("the allocation of 1000 bytes at {start:#x}");
        assert_eq!(place(start), Some(format!("inside {of}")));
        assert_eq!(place(start + 999), Some(format!("inside {of}")));
        assert_eq!(place(start + 1000), Some(format!("0 bytes past the end of {of}")));
        assert_eq!(place(start + 1024), Some(format!("24 bytes past the end of {of}")));
        assert_eq!(place(start - 8), Some(format!("8 bytes before {of}")));
        assert_eq!(place(start + (2 << 30)), None);
        allocations.free(MemoryKind::Device, start).unwrap();
        assert_eq!(place(start), None);
    }

    const LIMIT: u64 = 1 << 40;

    fn code<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
        result.unwrap_err().code()
    }

    #[test]
    fn memory_is_aligned_and_usable() {
        let table = Allocations::default();
        for alignment in [1, 8, 4096, 2 << 20] {
            for bytes in [1, 63, 4096, 5 << 20] {
                let address = table.allocate(MemoryKind::Device, bytes, alignment, LIMIT).unwrap();
                assert_eq!(address % alignment.max(64), 0);
                // SAFETY: just allocated.
                unsafe { (address as *mut u8).write_bytes(0xa5, bytes as usize) };
                table.free(MemoryKind::Device, address).unwrap();
            }
        }
    }

    #[test]
    fn absurd_sizes_and_alignments_are_errors() {
        let table = Allocations::default();
        for bytes in [u64::MAX, i64::MAX as u64 + 1, i64::MAX as u64, u64::MAX - 63] {
            for limit in [LIMIT, u64::MAX] {
                let result = table.allocate(MemoryKind::Host, bytes, 16, limit);
                assert_eq!(code(result), ErrorCode::OutOfResources, "{bytes} of {limit}");
            }
        }
        let result = table.allocate(MemoryKind::Host, 1, 1 << 63, LIMIT);
        assert_eq!(code(result), ErrorCode::Unsupported);
    }

    #[test]
    fn only_the_start_of_a_live_allocation_of_the_kind_can_be_freed() {
        let table = Allocations::default();
        let address = table.allocate(MemoryKind::Device, 100, 1, LIMIT).unwrap();
        assert_eq!(code(table.free(MemoryKind::Device, address + 1)), ErrorCode::InvalidArgument);
        assert_eq!(code(table.free(MemoryKind::Host, address)), ErrorCode::InvalidArgument);
        table.free(MemoryKind::Device, address).unwrap();
        assert_eq!(code(table.free(MemoryKind::Device, address)), ErrorCode::InvalidArgument);
        assert_eq!(code(table.free(MemoryKind::Device, 0)), ErrorCode::InvalidArgument);
    }

    #[test]
    fn adopted_memory_is_an_allocation_until_it_is_freed_and_stays_the_hosts() {
        let (table, mut memory) = (Allocations::default(), vec![7_u8; 8192]);
        let address = memory.as_mut_ptr() as u64;
        // SAFETY: the memory is there until the end of the test.
        let adopt =
            |start, bytes| table.adopt(MemoryKind::Host, unsafe { Span::new(start, bytes) });
        adopt(address, 4096).unwrap();
        assert_eq!(
            table.place_of(address + 8),
            Some(format!("inside the allocation of 4096 bytes at {address:#x}"))
        );
        for (start, bytes) in [(address, 4096), (address + 4095, 1), (address - 1, 2)] {
            assert_eq!(code(adopt(start, bytes)), ErrorCode::InvalidArgument, "{start:#x}");
        }
        assert_eq!(code(adopt(u64::MAX, 2)), ErrorCode::InvalidArgument);
        assert_eq!(code(table.free(MemoryKind::Managed, address)), ErrorCode::InvalidArgument);
        table.free(MemoryKind::Host, address).unwrap();
        assert_eq!(code(table.free(MemoryKind::Host, address)), ErrorCode::InvalidArgument);
        adopt(address + 4096, 4096).unwrap();
        drop(table);
        assert!(memory.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn pinned_ranges_do_not_overlap() {
        let pinned = PinnedRanges::default();
        // SAFETY: the ranges are never accessed.
        let pin = |start, bytes| pinned.pin(unsafe { Span::new(start, bytes) });
        assert_eq!(pin(0x1000, 0x1000), Ok(0x1000));
        for (start, bytes) in [(0x1000, 1), (0x1fff, 1), (0xfff, 2), (0x800, 0x4000)] {
            assert_eq!(code(pin(start, bytes)), ErrorCode::InvalidArgument, "{start:#x}");
        }
        for (start, bytes) in [(0, 1), (0x5000, 0), (u64::MAX, 2)] {
            assert_eq!(code(pin(start, bytes)), ErrorCode::InvalidArgument, "{start:#x}");
        }
        assert_eq!(pin(0x2000, 0x10), Ok(0x2000));
        assert_eq!(pin(0xff0, 0x10), Ok(0xff0));
        assert_eq!(code(pinned.unpin(0x1001)), ErrorCode::InvalidArgument);
        assert_eq!(pinned.unpin(0x1000), Ok(()));
        assert_eq!(pin(0x1000, 0x1000), Ok(0x1000));
    }
}
