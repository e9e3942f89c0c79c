//! Memory that is written through one mapping and runs in another.

use std::future::ready;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::ProtFlags;

use super::executing::{ExecutingSide, Table};
use super::layout::{Layout, memory_error};
use super::mapping::Mapping;
use super::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, Lifetime,
    MemoryManager, Pending, Placement,
};
use crate::Result;

/// Memory with two mappings (JITLink's `SharedMemoryMapper`): content is written through the working side's; the executing
/// side's can only ever be written where a segment is [`Protection::ReadWrite`](super::Protection::ReadWrite). The working
/// side's is gone before the executing side's becomes accessible.
///
/// Everything is done at once, by the calling thread; actions are run by it too, and may use the manager. Dropping the manager
/// does the same as for [`InProcessMemory`](super::InProcessMemory).
#[derive(Debug, Default)]
pub struct SharedMemory {
    table: Arc<Table>,
}

impl SharedMemory {
    /// A manager without allocations.
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryManager for SharedMemory {
    fn page_size(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>> {
        let in_flight = InFlight::new(&request, self.page_size(), &self.table);
        Box::pin(ready(
            in_flight.map(|in_flight| Box::new(in_flight) as Box<dyn InFlightAllocation>),
        ))
    }

    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()> {
        Box::pin(ready(self.table.deallocate(allocations)))
    }
}

struct InFlight {
    working: WorkingSide,
    executing: ExecutingSide,
    addresses: Vec<u64>,
    file: File,
    table: Arc<Table>,
}

impl InFlight {
    fn new(request: &AllocationRequest<'_>, page_size: u64, table: &Arc<Table>) -> Result<Self> {
        let fail = |problem: String| memory_error(request.name, problem);
        let layout = Layout::new(request, page_size)?;
        let file = File::new(layout.size)
            .map_err(|e| fail(format!("cannot create shared memory: {e}")))?;
        let working = WorkingSide::new(&file, &layout).map_err(fail)?;
        let mapping = reserve(&file, &layout, request.placement).map_err(fail)?;
        let addresses = layout.addresses(mapping.address());
        let executing = ExecutingSide { name: request.name.to_owned(), layout, mapping };
        Ok(Self { working, executing, addresses, file, table: Arc::clone(table) })
    }

    fn finalize(self, actions: Vec<ActionPair>) -> Result<FinalizedAllocation> {
        let Self { working, executing, file, table, .. } = self;
        drop(working);
        let lifetimes = executing.layout.by_lifetime();
        let finalized = executing.finalize(actions)?;
        for (_, range) in
            lifetimes.into_iter().filter(|(lifetime, _)| *lifetime == Lifetime::Finalize)
        {
            file.discard(range);
        }
        Ok(table.insert(finalized))
    }
}

impl InFlightAllocation for InFlight {
    fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    fn working_memory(&mut self) -> Vec<&mut [u8]> {
        self.working.contents(&self.executing.layout)
    }

    fn finalize(self: Box<Self>, actions: Vec<ActionPair>) -> Pending<FinalizedAllocation> {
        Box::pin(ready(Self::finalize(*self, actions)))
    }
}

/// The side that writes. Its mapping is `rw-`.
struct WorkingSide {
    mapping: Mapping,
}

impl WorkingSide {
    fn new(file: &File, layout: &Layout) -> Result<Self, String> {
        let page_size = rustix::param::page_size();
        let mut mapping =
            Mapping::new(layout.size, page_size, Placement::Anywhere, ProtFlags::empty())?;
        let map = |e: io::Error| format!("cannot map its working side: {e}");
        mapping.replace_with(file.0.as_fd(), ProtFlags::READ | ProtFlags::WRITE).map_err(map)?;
        for range in layout.content_pages() {
            mapping.populate(range).map_err(map)?;
        }
        Ok(Self { mapping })
    }

    fn contents(&mut self, layout: &Layout) -> Vec<&mut [u8]> {
        // SAFETY: the pages were mapped `rw-` for good, and the executing side's are inaccessible while there is a working side.
        layout.contents(unsafe { self.mapping.bytes_mut() })
    }
}

/// The executing side's mapping, inaccessible as yet.
fn reserve(file: &File, layout: &Layout, placement: Placement) -> Result<Mapping, String> {
    let mut mapping = Mapping::new(layout.size, layout.alignment, placement, ProtFlags::empty())?;
    let mapped = mapping.replace_with(file.0.as_fd(), ProtFlags::empty());
    mapped.map_err(|e| format!("cannot map its executing side: {e}"))?;
    Ok(mapping)
}

/// What both sides map: a file without a name, which lives as long as it is open or mapped.
struct File(OwnedFd);

impl File {
    fn new(size: usize) -> io::Result<Self> {
        let create = |flags| rustix::fs::memfd_create("longshore", MemfdFlags::CLOEXEC | flags);
        let file = match create(MemfdFlags::NOEXEC_SEAL) {
            Err(rustix::io::Errno::INVAL) => create(MemfdFlags::empty())?, // before Linux 6.3
            file => file?,
        };
        rustix::fs::ftruncate(&file, size as u64)?;
        Ok(Self(file))
    }

    /// Gives the memory of pages back that nobody maps any more; the rest of the file stays.
    fn discard(&self, range: Range<usize>) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) =
            rustix::fs::fallocate(&self.0, flags, range.start as u64, range.len() as u64)
        {
            log::error!("{:#x} bytes of shared memory stay in use: {error}", range.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::{CODE, access, request, standard};
    use super::super::{Protection, SegmentRequest};
    use super::*;

    super::super::suite::suite!(SharedMemory::new());

    #[test]
    fn the_memory_of_finalize_segments_is_given_back_while_the_rest_lives() {
        let memory = SharedMemory::new();
        let page = memory.page_size();
        let temporary =
            SegmentRequest { lifetime: Lifetime::Finalize, ..standard(Protection::Read, 5 * page) };
        let segments = [standard(Protection::ReadExecute, 2 * page), temporary];
        let mut in_flight = InFlight::new(&request(&segments), page, &memory.table).unwrap();
        in_flight.working_memory().into_iter().for_each(|content| content.fill(1));
        let file = in_flight.file.0.try_clone().unwrap();
        let pages = || rustix::fs::fstat(&file).unwrap().st_blocks as u64 * 512 / page;
        assert_eq!(pages(), 7);
        let finalized = in_flight.finalize(Vec::new()).unwrap();
        assert_eq!(pages(), 2);
        memory.table.deallocate(vec![finalized]).unwrap();
    }

    #[test]
    fn the_executing_side_is_inaccessible_until_it_is_finalized() {
        let memory = SharedMemory::new();
        for protection in [Protection::ReadExecute, Protection::Read, Protection::ReadWrite] {
            let segments = [standard(protection, 8)];
            let in_flight =
                InFlight::new(&request(&segments), memory.page_size(), &memory.table).unwrap();
            assert_eq!(access(in_flight.addresses()[0]), "---");
        }
    }

    #[test]
    fn what_the_working_side_writes_is_what_the_executing_side_sees() {
        let memory = SharedMemory::new();
        let segments = [standard(Protection::Read, CODE.len() as u64)];
        let mut in_flight =
            InFlight::new(&request(&segments), memory.page_size(), &memory.table).unwrap();
        let working = in_flight.working_memory().remove(0);
        working.copy_from_slice(&CODE);
        let (written, address) = (working.as_ptr() as u64, in_flight.addresses()[0]);
        assert_ne!(written, address);
        let finalized = in_flight.finalize(Vec::new()).unwrap();
        // SAFETY: the segment is mapped until it is deallocated below.
        let seen = unsafe { std::slice::from_raw_parts(address as *const u8, CODE.len()) };
        assert_eq!(seen, CODE);
        memory.table.deallocate(vec![finalized]).unwrap();
    }
}
