//! Memory of this process, written in place.

use std::future::ready;
use std::sync::Arc;

use rustix::mm::ProtFlags;

use longshore_orc_rt::pages::{Mapping, Plan, ReservedPages, Table};

use super::layout::{Layout, memory_error};
use super::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, MemoryManager, Pending,
};
use crate::Result;

/// Memory of this process (JITLink's `InProcessMemoryManager`).
///
/// Content is written in place, in pages that are `rw-` until they are finalized and have their
/// final protection from then on. The calling thread does everything at once, including actions,
/// which may use the manager.
///
/// Dropping the manager leaves finalized allocations as they are, without running their actions:
/// code in them may be running. An allocation in flight does not need its manager any more.
#[derive(Debug, Default)]
pub struct InProcessMemory {
    table: Arc<Table>,
}

impl InProcessMemory {
    /// Creates a manager without allocations.
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryManager for InProcessMemory {
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
    /// Reserved pages, all `rw-`.
    mapping: Mapping,
    layout: Layout,
    plan: Plan,
    addresses: Vec<u64>,
    table: Arc<Table>,
}

impl InFlight {
    fn new(request: &AllocationRequest<'_>, page_size: u64, table: &Arc<Table>) -> Result<Self> {
        let fail = |problem| memory_error(&request.name(), problem);
        let layout = Layout::new(request, page_size)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mut mapping =
            Mapping::new(layout.size, layout.alignment, request.placement, access).map_err(fail)?;
        // With alignments larger than a page, the padding may contain whole pages that are never
        // written. All pages are left to page faults then.
        let dense = request.segments().all(|segment| segment.alignment <= page_size);
        for range in dense.then(|| layout.content_pages()).into_iter().flatten() {
            mapping.populate(range).map_err(|e| fail(e.to_string()))?;
        }
        let addresses = layout.addresses(mapping.address());
        let plan = layout.plan(request);
        Ok(Self { mapping, layout, plan, addresses, table: Arc::clone(table) })
    }
}

impl InFlightAllocation for InFlight {
    fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    fn working_memory(&mut self) -> Vec<&mut [u8]> {
        // SAFETY: the pages were mapped `rw-`, and only `finalize`, which consumes `self`, changes
        // that.
        self.layout.contents(unsafe { self.mapping.bytes_mut() })
    }

    fn finalize(
        self: Box<Self>,
        actions: Vec<Vec<ActionPair>>,
    ) -> Pending<Vec<FinalizedAllocation>> {
        let Self { mapping, plan, table, .. } = *self;
        Box::pin(ready(finalize(plan, mapping, actions, &table)))
    }
}

/// Finalizes pages and returns their allocations.
pub(super) fn finalize(
    plan: Plan,
    mapping: Mapping,
    actions: Vec<Vec<ActionPair>>,
    table: &Table,
) -> Result<Vec<FinalizedAllocation>> {
    let finalized = ReservedPages::new(plan, mapping)?.finalize(actions)?;
    Ok(table.insert(finalized).into_iter().map(FinalizedAllocation::new).collect())
}

/// Deallocates as [`MemoryManager::deallocate`] does.
pub(super) fn deallocate(table: &Table, allocations: Vec<FinalizedAllocation>) -> Result<()> {
    Ok(table.deallocate(allocations.iter().map(FinalizedAllocation::number).collect())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::{
        AllocationRequest, Lifetime, MemoryManager, ObjectRequest, Placement, Protection,
        SegmentRequest,
    };
    use super::InProcessMemory;

    super::super::suite::suite!(InProcessMemory::new());

    #[test]
    fn padding_takes_no_memory() {
        const GIGABYTE: u64 = 1 << 30;
        let segment = SegmentRequest {
            protection: Protection::Read,
            lifetime: Lifetime::Standard,
            alignment: GIGABYTE / 2,
            content_size: GIGABYTE / 2 + 1,
            zero_fill_size: 0,
            group: 0,
        };
        let request = AllocationRequest {
            objects: &[ObjectRequest { name: "test", segments: &[segment] }],
            placement: Placement::Anywhere,
        };
        let allocation = crate::wait(InProcessMemory::new().allocate(request)).unwrap();
        assert!(!is_present(allocation.addresses()[0] + GIGABYTE / 4));
    }

    /// Returns whether a page of this process has physical memory.
    fn is_present(address: u64) -> bool {
        let pages = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut entry = [0; 8];
        pages.read_exact_at(&mut entry, address / rustix::param::page_size() as u64 * 8).unwrap();
        u64::from_le_bytes(entry) >> 62 != 0
    }
}
