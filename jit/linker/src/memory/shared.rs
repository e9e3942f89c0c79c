//! Memory that is written through one mapping and executed in another.

use std::future::ready;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::MemfdFlags;
use rustix::mm::ProtFlags;

use longshore_orc_rt::pages::{Mapping, Plan, Source, Table};

use super::in_process::{deallocate, finalize};
use super::layout::{Layout, memory_error};
use super::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, MemoryManager, Pending,
    Placement,
};
use crate::Result;

/// Memory with two mappings (JITLink's `SharedMemoryMapper`). Content is written through the
/// working side's mapping. The executing side's mapping is writable only where a segment is
/// [`Protection::ReadWrite`](super::Protection::ReadWrite), and becomes accessible after the
/// working side's is gone.
///
/// The calling thread does everything at once, including actions, which may use the manager.
/// Dropping the manager does the same as for [`InProcessMemory`](super::InProcessMemory).
#[derive(Debug, Default)]
pub struct SharedMemory {
    table: Arc<Table>,
}

impl SharedMemory {
    /// Creates a manager without allocations.
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
        Box::pin(ready(deallocate(&self.table, allocations)))
    }
}

struct InFlight {
    working: WorkingMapping,
    executing: Mapping,
    layout: Layout,
    plan: Plan,
    addresses: Vec<u64>,
    table: Arc<Table>,
}

impl InFlight {
    fn new(request: &AllocationRequest<'_>, page_size: u64, table: &Arc<Table>) -> Result<Self> {
        let fail = |problem: String| memory_error(&request.name(), problem);
        let layout = Layout::new(request, page_size)?;
        let file = File::new(layout.size)
            .map_err(|e| fail(format!("cannot create shared memory: {e}")))?;
        Self::in_file(&file, request, layout, table).map_err(fail)
    }

    fn in_file(
        file: &File,
        request: &AllocationRequest<'_>,
        layout: Layout,
        table: &Arc<Table>,
    ) -> Result<Self, String> {
        let working = WorkingMapping::new(file, &layout)?;
        let executing = reserve(file, &layout, request.placement)?;
        let (addresses, plan) = (layout.addresses(executing.address()), layout.plan(request));
        Ok(Self { working, executing, layout, plan, addresses, table: Arc::clone(table) })
    }

    fn finalize(self, actions: Vec<Vec<ActionPair>>) -> Result<Vec<FinalizedAllocation>> {
        let Self { working, executing, plan, table, .. } = self;
        drop(working);
        finalize(plan, executing, actions, &table)
    }
}

impl InFlightAllocation for InFlight {
    fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    fn working_memory(&mut self) -> Vec<&mut [u8]> {
        self.working.contents(&self.layout)
    }

    fn finalize(
        self: Box<Self>,
        actions: Vec<Vec<ActionPair>>,
    ) -> Pending<Vec<FinalizedAllocation>> {
        Box::pin(ready(Self::finalize(*self, actions)))
    }
}

/// The working side. Its mapping is `rw-`.
struct WorkingMapping {
    mapping: Mapping,
}

impl WorkingMapping {
    fn new(file: &File, layout: &Layout) -> Result<Self, String> {
        let page_size = rustix::param::page_size();
        let mut mapping =
            Mapping::new(layout.size, page_size, Placement::Anywhere, ProtFlags::empty())?;
        let map = |e: io::Error| format!("cannot map its working side: {e}");
        mapping.replace_with(file.whole(), ProtFlags::READ | ProtFlags::WRITE).map_err(map)?;
        for range in layout.content_pages() {
            mapping.populate(range).map_err(map)?;
        }
        Ok(Self { mapping })
    }

    fn contents(&mut self, layout: &Layout) -> Vec<&mut [u8]> {
        // SAFETY: the pages are mapped `rw-` for good, and the executing side's are inaccessible
        // while a working side exists.
        layout.contents(unsafe { self.mapping.bytes_mut() })
    }
}

/// Returns the executing side's mapping, inaccessible as yet.
fn reserve(file: &File, layout: &Layout, placement: Placement) -> Result<Mapping, String> {
    let mut mapping = Mapping::new(layout.size, layout.alignment, placement, ProtFlags::empty())?;
    let mapped = mapping.replace_with(file.whole(), ProtFlags::empty());
    mapped.map_err(|e| format!("cannot map its executing side: {e}"))?;
    mapping.own_file();
    Ok(mapping)
}

/// The memory that both sides map: a file without a name, which lives while it is open or mapped.
struct File(OwnedFd);

impl File {
    fn whole(&self) -> Source<'_> {
        Source { file: self.0.as_fd(), offset: 0 }
    }

    fn new(size: usize) -> io::Result<Self> {
        // The kernel kills a process that exceeds the limit.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if let Some(limit) = limit.filter(|limit| size as u64 > *limit) {
            let message = format!(
                "{size} bytes of memory to link in, and files may have {limit} (`ulimit -f`)"
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let create = |flags| rustix::fs::memfd_create("longshore", MemfdFlags::CLOEXEC | flags);
        let file = match create(MemfdFlags::NOEXEC_SEAL) {
            Err(rustix::io::Errno::INVAL) => create(MemfdFlags::empty())?, // before Linux 6.3
            file => file?,
        };
        rustix::fs::ftruncate(&file, size as u64)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::super::support::{CODE, access, now, standard};
    use super::super::{Lifetime, ObjectRequest, Protection, SegmentRequest};
    use super::*;

    super::super::suite::suite!(SharedMemory::new());

    /// Returns memory for objects that have the same segments, and the file behind it.
    fn in_flight(
        memory: &SharedMemory,
        count: usize,
        segments: &[SegmentRequest],
    ) -> (InFlight, File) {
        let objects = &vec![ObjectRequest { name: "test", segments }; count];
        let request = AllocationRequest { objects, placement: Placement::Anywhere };
        let layout = Layout::new(&request, memory.page_size()).unwrap();
        let file = File::new(layout.size).unwrap();
        (InFlight::in_file(&file, &request, layout, &memory.table).unwrap(), file)
    }

    /// Returns the number of pages for which a file has memory.
    fn pages(file: &File) -> u64 {
        rustix::fs::fstat(&file.0).unwrap().st_blocks as u64 * 512
            / rustix::param::page_size() as u64
    }

    #[test]
    fn the_memory_of_finalize_segments_is_given_back_while_the_rest_lives() {
        let memory = SharedMemory::new();
        let page = memory.page_size();
        let temporary =
            SegmentRequest { lifetime: Lifetime::Finalize, ..standard(Protection::Read, 5 * page) };
        let segments = [standard(Protection::ReadExecute, 2 * page), temporary];
        let (mut in_flight, file) = in_flight(&memory, 1, &segments);
        in_flight.working_memory().into_iter().for_each(|content| content.fill(1));
        assert_eq!(pages(&file), 7);
        let finalized = InFlight::finalize(in_flight, Vec::new()).unwrap();
        assert_eq!(pages(&file), 2);
        now(memory.deallocate(finalized)).unwrap();
    }

    #[test]
    fn the_memory_of_an_object_is_given_back_while_others_live() {
        let memory = SharedMemory::new();
        let segments = [standard(Protection::ReadExecute, memory.page_size() * 5 / 2)];
        let (mut in_flight, file) = in_flight(&memory, 3, &segments);
        in_flight.working_memory().into_iter().for_each(|content| content.fill(1));
        let mut finalized = InFlight::finalize(in_flight, Vec::new()).unwrap();
        assert_eq!(pages(&file), 8);
        now(memory.deallocate(vec![finalized.remove(1)])).unwrap();
        assert_eq!(pages(&file), 6, "two pages are of this object alone");
        now(memory.deallocate(finalized)).unwrap();
        assert_eq!(pages(&file), 0);
    }

    #[test]
    fn the_executing_side_is_inaccessible_until_it_is_finalized() {
        let memory = SharedMemory::new();
        for protection in [Protection::ReadExecute, Protection::Read, Protection::ReadWrite] {
            let segments = [standard(protection, 8)];
            let (in_flight, _) = in_flight(&memory, 1, &segments);
            assert_eq!(access(in_flight.addresses()[0]), "---");
        }
    }

    #[test]
    fn both_sides_see_the_same_bytes() {
        let memory = SharedMemory::new();
        let segments = [standard(Protection::Read, CODE.len() as u64)];
        let (mut in_flight, _) = in_flight(&memory, 1, &segments);
        let working = in_flight.working_memory().remove(0);
        working.copy_from_slice(&CODE);
        let (written, address) = (working.as_ptr() as u64, in_flight.addresses()[0]);
        assert_ne!(written, address);
        let finalized = InFlight::finalize(in_flight, Vec::new()).unwrap();
        // SAFETY: the segment is mapped until it is deallocated below.
        let seen = unsafe { std::slice::from_raw_parts(address as *const u8, CODE.len()) };
        assert_eq!(seen, CODE);
        now(memory.deallocate(finalized)).unwrap();
    }
}
