//! Memory of a device: its allocations and pinned ranges.

mod mapping;
mod slabs;

use crate::check::Checker;
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result, Span};
use mapping::Mapping;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use slabs::{Slabs, Slot};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Least alignment of an allocation: a cache line, so that two allocations never share one.
const LEAST_ALIGNMENT: u64 = 64;
/// Least size of an allocation with its own mapping.
const LARGE_BYTES: u64 = 256 << 10;
/// Greatest distance of an address that counts as near an allocation, in bytes.
const NEAR_BYTES: u64 = 1 << 30;
/// Greatest alignment of an allocation: the largest page of x86-64.
const GREATEST_ALIGNMENT: u64 = 1 << 30;

/// The live allocations of a device. All kinds are ordinary memory, which the CPU reaches anywhere.
/// No page needs to be locked for this device, so `RLIMIT_MEMLOCK` does not matter.
///
/// No allocation lies in the program's heap. A small allocation is a slot among slots of its size
/// ([`slabs`]). A large allocation has its own mapping and ends at a fence ([`mapping`]), so a
/// kernel that runs past its end faults. New memory is zero, or has the contents of an earlier
/// allocation of the device.
///
/// Dropping the table frees the remaining allocations. A forked child has a copy of every
/// allocation.
#[derive(Default)]
pub(crate) struct Allocations {
    live: Mutex<HashMap<u64, Allocation>>,
    slabs: Arc<Mutex<Slabs>>,
    /// The checks of kernels, which want gaps around allocations.
    checker: Option<Arc<Checker>>,
}

struct Allocation {
    kind: MemoryKind,
    bytes: u64,
    place: Place,
    /// Number of bytes before the allocation in its place.
    gap: u64,
}

/// The memory of an allocation.
enum Place {
    Slot(Slot),
    /// A mapping that is unmapped with the allocation.
    Own {
        _mapping: Mapping,
    },
    /// Imported memory, which the host owns.
    Imported,
}

/// Number of bytes around an allocation while kernels are checked.
const GAP_BYTES: u64 = 1024;

/// Memory of a freed allocation that is given back later.
struct Kept {
    slabs: Arc<Mutex<Slabs>>,
    address: u64,
    allocation: Option<Allocation>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            allocation.give_back(self.address, &self.slabs);
        }
    }
}

impl Allocation {
    fn give_back(self, address: u64, slabs: &Mutex<Slabs>) {
        match self.place {
            Place::Slot(slot) => slabs.lock().give_back((address - self.gap) as usize, slot),
            Place::Own { .. } | Place::Imported => {}
        }
    }
}

impl Allocations {
    pub(crate) fn new(checker: Option<Arc<Checker>>) -> Allocations {
        Allocations { checker, ..Allocations::default() }
    }

    /// Allocates at a multiple of `alignment`, a power of two. `limit` is the device's memory in
    /// bytes.
    ///
    /// # Errors
    /// `OutOfResources` without enough memory, `Unsupported` for an alignment above 1 GiB.
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
        self.live.lock().try_reserve(1).map_err(|_| out_of_memory(bytes, limit))?;
        let alignment = alignment.max(LEAST_ALIGNMENT);
        let gap = match &self.checker {
            Some(_) => GAP_BYTES.max(alignment),
            None => 0,
        };
        let whole = bytes.max(1).saturating_add(2 * gap);
        let placed = self.place(whole, alignment);
        let (start, place) = placed.map_err(|error| refused(bytes, limit, error))?;
        let address = start + gap;
        self.live.lock().insert(address, Allocation { kind, bytes, place, gap });
        if let Some(checker) = &self.checker {
            checker.allocated(kind, address, bytes);
        }
        Ok(address)
    }

    /// Finds memory of at least `bytes` bytes.
    fn place(&self, bytes: u64, alignment: u64) -> std::result::Result<(u64, Place), Errno> {
        let (bytes, alignment) = (bytes as usize, alignment as usize);
        if (bytes as u64) < LARGE_BYTES && alignment <= rustix::param::page_size() {
            let mut slabs = self.slabs.lock();
            let taken = slabs.take(bytes, alignment);
            // The system may still have enough pages for one allocation if it has too few for a
            // slab.
            if let Ok((address, slot)) = taken {
                return Ok((address as u64, Place::Slot(slot)));
            }
        }
        let own = || {
            let mapping = Mapping::new(bytes, alignment)?;
            // The allocation ends at the end of the mapping.
            let address = (mapping.end() - bytes) & !(alignment - 1);
            Ok((address as u64, Place::Own { _mapping: mapping }))
        };
        own().or_else(|error| if self.slabs.lock().trim() { own() } else { Err(error) })
    }

    fn release(&self, address: u64, allocation: Allocation) {
        match &self.checker {
            None => allocation.give_back(address, &self.slabs),
            Some(checker) if matches!(allocation.place, Place::Imported) => {
                checker.removed(address)
            }
            Some(checker) => {
                let slabs = Arc::clone(&self.slabs);
                let kept = Kept { slabs, address, allocation: Some(allocation) };
                checker.freed(address, Box::new(kept));
            }
        }
    }

    /// Makes host memory an allocation, until it is freed.
    ///
    /// # Errors
    /// `InvalidArgument` if a part of the memory is an allocation already, or if it is not a range.
    pub(crate) fn import_memory(&self, kind: MemoryKind, memory: Span) -> Result<()> {
        let (address, bytes) = (memory.address(), memory.bytes());
        let wrong = |why: &str| {
            let message = format!("{bytes} bytes at {address:#x} cannot be imported: {why}");
            Error::new(ErrorCode::InvalidArgument, message)
        };
        let end = address.checked_add(bytes).filter(|end| *end > address);
        let end = end.ok_or_else(|| wrong("they are no range of memory"))?;
        let mut live = self.live.lock();
        let overlaps =
            |(start, found): (&u64, &Allocation)| *start < end && start + found.bytes > address;
        if live.iter().any(overlaps) {
            return Err(wrong("some of them are an allocation"));
        }
        live.insert(address, Allocation { kind, bytes, place: Place::Imported, gap: 0 });
        drop(live);
        if let Some(checker) = &self.checker {
            checker.pinned(address, bytes);
        }
        Ok(())
    }

    /// Frees an allocation.
    ///
    /// # Errors
    /// `InvalidArgument` if `address` is not the start of a live allocation of this kind.
    pub(crate) fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        let mut live = self.live.lock();
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
            self.release(address, found);
        }
        Ok(())
    }

    /// Describes an address relative to the nearest allocation; `None` if no allocation is near.
    pub(crate) fn place_of(&self, address: u64) -> Option<String> {
        let live = self.live.lock();
        let distance = |start: u64, bytes: u64| match address {
            before if before < start => start - before,
            inside if inside - start < bytes => 0,
            behind => behind - start - bytes,
        };
        let sizes = live.iter().map(|(start, found)| (*start, found.bytes));
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
}

/// The pinned ranges of a device. Pinning only records a range: see [`Allocations`].
#[derive(Default)]
pub(crate) struct PinnedRanges {
    /// End by start; the ranges do not overlap.
    ranges: Mutex<BTreeMap<u64, u64>>,
}

impl PinnedRanges {
    /// Records a range and returns its address.
    ///
    /// # Errors
    /// `InvalidArgument` if the range is empty, wraps around, or overlaps a pinned range.
    pub(crate) fn pin(&self, range: Span) -> Result<u64> {
        let (start, bytes) = (range.address(), range.bytes());
        let end = start.checked_add(bytes).filter(|end| *end > start && start != 0);
        let end = end.ok_or_else(|| {
            let message = format!("{bytes} bytes at {start:#x} are no range of memory");
            Error::new(ErrorCode::InvalidArgument, message)
        })?;
        let mut ranges = self.ranges.lock();
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

    /// Removes a range.
    ///
    /// # Errors
    /// `InvalidArgument` if no range was pinned at `address`.
    pub(crate) fn unpin(&self, address: u64) -> Result<()> {
        self.ranges.lock().remove(&address).map(drop).ok_or_else(|| {
            let message = format!("nothing is pinned at {address:#x}");
            Error::new(ErrorCode::InvalidArgument, message)
        })
    }
}

#[cold]
fn out_of_memory(bytes: u64, limit: u64) -> Error {
    let message = format!("no memory for an allocation of {bytes} bytes; the device has {limit}");
    Error::new(ErrorCode::OutOfResources, message)
}

/// Returns the error for memory that the system refused although the device has enough.
#[cold]
fn refused(bytes: u64, limit: u64, error: Errno) -> Error {
    let known = match getrlimit(Resource::As).current {
        Some(most) => format!(
            "; the process may have {most} bytes of addresses (RLIMIT_AS, which `ulimit -v` sets)"
        ),
        None => String::new(),
    };
    let message = format!(
        "no memory for an allocation of {bytes} bytes: {error}; the device has {limit} bytes in \
         all{known}"
    );
    Error::new(ErrorCode::OutOfResources, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fences;

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
                // SAFETY: the memory was just allocated.
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
    fn imported_memory_is_an_allocation_until_it_is_freed_and_stays_the_hosts() {
        let (table, mut memory) = (Allocations::default(), vec![7_u8; 8192]);
        let address = memory.as_mut_ptr() as u64;
        let import_memory = |start, bytes| {
            // SAFETY: the memory lives until the end of the test.
            table.import_memory(MemoryKind::Host, unsafe { Span::new(start, bytes) })
        };
        import_memory(address, 4096).unwrap();
        assert_eq!(
            table.place_of(address + 8),
            Some(format!("inside the allocation of 4096 bytes at {address:#x}"))
        );
        for (start, bytes) in [(address, 4096), (address + 4095, 1), (address - 1, 2)] {
            assert_eq!(code(import_memory(start, bytes)), ErrorCode::InvalidArgument, "{start:#x}");
        }
        assert_eq!(code(import_memory(u64::MAX, 2)), ErrorCode::InvalidArgument);
        assert_eq!(code(table.free(MemoryKind::Managed, address)), ErrorCode::InvalidArgument);
        table.free(MemoryKind::Host, address).unwrap();
        assert_eq!(code(table.free(MemoryKind::Host, address)), ErrorCode::InvalidArgument);
        import_memory(address + 4096, 4096).unwrap();
        drop(table);
        assert!(memory.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn large_allocations_end_where_a_fence_begins() {
        let table = Allocations::default();
        for bytes in [LARGE_BYTES, LARGE_BYTES + 64, (1 << 20) - 64, 1 << 20, 5 << 20, 6_000_000] {
            let address = table.allocate(MemoryKind::Managed, bytes, 256, LIMIT).unwrap();
            let end = address + bytes;
            assert!(end.next_multiple_of(256).is_multiple_of(4096), "{bytes}");
            assert!(fences::has(end.next_multiple_of(4096)) && fences::has(end + 60_000));
            assert!(fences::has(address / 4096 * 4096 - 1));
            table.free(MemoryKind::Managed, address).unwrap();
            assert!(!fences::has(end.next_multiple_of(4096)));
        }
    }

    #[test]
    fn new_memory_has_nothing_of_the_programs_heap() {
        for bytes in [100, 5000, 100_000, 300_000, 8 << 20] {
            drop(vec![0xa5_u8; bytes as usize]);
            let table = Allocations::default();
            let address = table.allocate(MemoryKind::Device, bytes, 64, LIMIT).unwrap();
            // SAFETY: the memory was just allocated.
            let content =
                unsafe { std::slice::from_raw_parts(address as *const u8, bytes as usize) };
            assert!(content.iter().all(|byte| *byte == 0), "{bytes}");
        }
    }

    #[test]
    fn more_allocations_than_there_can_be_fences_are_allocations_all_the_same() {
        let table = Allocations::default();
        let allocate = |_| table.allocate(MemoryKind::Device, LARGE_BYTES, 64, LIMIT).unwrap();
        let all: Vec<u64> = (0..10_000).map(allocate).collect();
        let fenced = all.iter().filter(|address| fences::has(**address + LARGE_BYTES));
        assert!((1000..10_000).contains(&fenced.count()));
        for address in all {
            // SAFETY: the byte is the last one of an allocation.
            unsafe { *((address + LARGE_BYTES - 1) as *mut u8) = 1 };
            table.free(MemoryKind::Device, address).unwrap();
        }
        let again = allocate(0);
        assert!(fences::has(again + LARGE_BYTES));
    }

    #[test]
    fn a_forked_child_has_a_copy_of_its_own() {
        let table = Allocations::default();
        for bytes in [100, 1 << 20] {
            let address = table.allocate(MemoryKind::Host, bytes, 64, LIMIT).unwrap();
            let byte = address as *mut u8;
            // SAFETY: the byte is allocated. The only lock that the child takes is the table's,
            // which belongs to this test; the child ends without running other code.
            unsafe {
                *byte = 1;
                let child = libc::fork();
                if child == 0 {
                    let is_same = *byte == 1;
                    *byte = 2;
                    let is_freed = table.free(MemoryKind::Host, address).is_ok();
                    libc::_exit(i32::from(!(is_same && is_freed)));
                }
                let mut status = -1;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert_eq!((status, *byte), (0, 1));
            }
            table.free(MemoryKind::Host, address).unwrap();
        }
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
