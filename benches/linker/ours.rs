//! The linker under test, as a call in this process.
//!
//! The objects are mapped anew before each run, from the page cache. The page faults of reading
//! them are part of the time, as they are for the peers.

use crate::memory;
use crate::workloads::Workload;
use anyhow::Result;
use bytes::Bytes;
use longshore_jitlink::Session;
use longshore_jitlink::memory::{
    AllocationRequest, FinalizedAllocation, InFlightAllocation, InProcessMemory, MemoryManager,
    Pending, SegmentRequest,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The peak memory of a link, beyond the objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryPeak {
    /// Peak of bytes on the heap.
    pub(crate) heap: u64,
    /// Size of the segments in bytes.
    pub(crate) wanted: u64,
    /// Bytes that the memory manager has mapped for the segments, in whole pages.
    pub(crate) mapped: u64,
}

/// Links a workload once.
///
/// # Errors
/// Objects that cannot be read or linked.
pub(crate) fn run(workload: &Workload, threads: usize) -> Result<Duration> {
    Ok(link(&workload.map()?, threads)?.0)
}

/// Links a workload once more, on one thread, and measures the memory. Returns `None` if the link
/// fails.
///
/// # Errors
/// Objects that cannot be read.
pub(crate) fn peak(workload: &Workload) -> Result<Option<MemoryPeak>> {
    let objects = workload.map()?;
    let (linked, heap) = memory::watch(|| link(&objects, 1));
    Ok(linked.ok().map(|(_, memory)| MemoryPeak {
        heap,
        wanted: memory.wanted.load(Ordering::Relaxed),
        mapped: memory.mapped.load(Ordering::Relaxed),
    }))
}

/// Links all definitions of the objects, with every undefined symbol at an absolute address.
/// Returns the time from the start to callable code, and the memory manager. The code's memory is
/// freed before the return.
fn link(objects: &[Bytes], threads: usize) -> Result<(Duration, Arc<CountingMemory>)> {
    let memory = Arc::new(CountingMemory::default());
    let start = Instant::now();
    let builder = Session::builder()
        .with_memory(memory.clone())
        .with_threads(threads)
        .with_phony_externals(PHONY);
    // SAFETY: compilers have made the objects, and none of their code is called.
    let session = unsafe { builder.build() }?;
    let library = session.create_library("workload");
    for (index, object) in objects.iter().enumerate() {
        drop(library.add_object(&index.to_string(), object.clone())?);
    }
    library.link_all()?;
    Ok((start.elapsed(), memory))
}

/// Address of undefined symbols.
const PHONY: u64 = 0xbad;

/// A memory manager of this process that counts requested memory.
#[derive(Default)]
struct CountingMemory {
    inner: InProcessMemory,
    wanted: Arc<AtomicU64>,
    mapped: Arc<AtomicU64>,
}

impl MemoryManager for CountingMemory {
    fn page_size(&self) -> u64 {
        self.inner.page_size()
    }

    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>> {
        let size = |segment: &SegmentRequest| segment.content_size + segment.zero_fill_size;
        let sizes: Vec<u64> = request.segments().map(size).collect();
        self.wanted.fetch_add(sizes.iter().sum(), Ordering::Relaxed);
        let (page, mapped) = (self.page_size(), Arc::clone(&self.mapped));
        let pending = self.inner.allocate(request);
        Box::pin(async move {
            let in_flight = pending.await?;
            let pages = pages(in_flight.addresses(), &sizes, page);
            mapped.fetch_add(pages * page, Ordering::Relaxed);
            Ok(in_flight)
        })
    }

    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()> {
        self.inner.deallocate(allocations)
    }
}

/// Returns the number of pages with a byte of the segments, which do not overlap.
fn pages(addresses: &[u64], sizes: &[u64], page: u64) -> u64 {
    let mut segments: Vec<_> = addresses.iter().copied().zip(sizes.iter().copied()).collect();
    segments.sort_unstable();
    let (mut pages, mut end) = (0, 0);
    for (address, size) in segments {
        let last = (address + size).div_ceil(page);
        pages += last - (address / page).max(end);
        end = last;
    }
    pages
}
