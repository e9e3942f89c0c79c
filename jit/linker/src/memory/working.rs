//! The division of working memory among the objects of an allocation.

use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use super::layout::memory_error;
use super::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, MemoryManager,
    SegmentRequest,
};
use crate::Result;

/// An allocation with divided working memory. It is not accessed while any part of that memory is
/// held.
pub(crate) struct InFlight {
    allocation: Arc<Mutex<Box<dyn InFlightAllocation>>>,
    objects: usize,
}

/// The part of one object, which keeps the allocation alive.
pub(crate) struct WorkingMemory {
    /// Address of each of the object's segments on the executing side.
    pub(crate) addresses: Vec<u64>,
    segments: Vec<NonNull<[u8]>>,
    _allocation: Arc<Mutex<Box<dyn InFlightAllocation>>>,
}

// SAFETY: the segments are accessed through `&mut self` alone, and no two values have the same one.
unsafe impl Send for WorkingMemory {}
// SAFETY: as above.
unsafe impl Sync for WorkingMemory {}

impl InFlight {
    /// Allocates memory, and divides it: one part for each object, in order.
    ///
    /// # Errors
    /// The manager's errors, and [`Error::Memory`](crate::Error::Memory) if its allocation differs
    /// from the request.
    pub(crate) async fn allocate(
        memory: &dyn MemoryManager,
        request: AllocationRequest<'_>,
    ) -> Result<(Self, Vec<WorkingMemory>)> {
        let mut allocation = memory.allocate(request).await?;
        let addresses = allocation.addresses().to_vec();
        let segments = allocation.working_memory();
        let sizes = request.segments().map(|segment| segment.content_size);
        if addresses.len() != segments.len() || !sizes.eq(segments.iter().map(|s| s.len() as u64)) {
            let problem = "the memory manager returns other segments than requested";
            return Err(memory_error(&request.name(), problem));
        }
        let segments: Vec<NonNull<[u8]>> = segments.into_iter().map(NonNull::from).collect();
        let allocation = Arc::new(Mutex::new(allocation));
        let mut segments = addresses.into_iter().zip(segments);
        let mut part = |wanted: &[SegmentRequest]| {
            let (addresses, segments) = segments.by_ref().take(wanted.len()).unzip();
            WorkingMemory { addresses, segments, _allocation: Arc::clone(&allocation) }
        };
        let parts = request.objects.iter().map(|object| part(object.segments)).collect();
        Ok((Self { allocation, objects: request.objects.len() }, parts))
    }

    /// Finalizes as [`InFlightAllocation::finalize`] does. All parts must have been dropped.
    pub(crate) async fn finalize(
        self,
        actions: Vec<Vec<ActionPair>>,
    ) -> Result<Vec<FinalizedAllocation>> {
        let fail = |problem: &str| Err(memory_error("a link", problem));
        let Some(allocation) = Arc::into_inner(self.allocation) else {
            return fail("its memory is still being written");
        };
        let finalized = allocation.into_inner().finalize(actions).await?;
        if finalized.len() != self.objects {
            return fail(
                "the memory manager returns memory for another number of objects than requested",
            );
        }
        Ok(finalized)
    }
}

impl WorkingMemory {
    /// Returns the content of a segment.
    pub(crate) fn segment(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: the segment stays at its address while the allocation is in flight, which `self`
        // keeps. No other value has it, and the borrow is that of `self`.
        unsafe { self.segments[index].as_mut() }
    }

    /// Returns the content of all segments.
    pub(crate) fn segments(&mut self) -> Vec<&mut [u8]> {
        // SAFETY: as for one segment; the segments do not overlap, as the manager returned them as
        // exclusive borrows.
        self.segments.iter_mut().map(|segment| unsafe { segment.as_mut() }).collect()
    }
}
