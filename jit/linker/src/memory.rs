//! Memory for linked code: its providers, its place and its lifetime.
//!
//! A [`MemoryManager`] is asynchronous in shape, like JITLink's `JITLinkMemoryManager`: each step
//! returns a future, so that a manager for memory in another process can have many requests under
//! way. The managers of this process reply at once, and their futures are ready from the start.

mod in_process;
mod layout;
mod process_memory;
mod shared;
mod slab;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod support;
mod working;

pub use in_process::InProcessMemory;
pub use longshore_orc_rt::actions::{ActionCall, ActionFunction, ActionPair};
pub use longshore_orc_rt::pages::{Placement, Protection};
pub use process_memory::{ProcessMemory, SharedFile, SharedPages};
pub use shared::SharedMemory;
pub use slab::SlabMemory;
pub(crate) use working::{InFlight, WorkingMemory};

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::Result;

/// The pending reply of a memory manager. The request is under way already; dropping the future
/// does not cancel it.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// The lifetime of a section's memory (JITLink's `MemLifetime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifetime {
    /// The time until the allocation is deallocated.
    Standard,
    /// The time until the finalize actions have run; then the section's pages are given back.
    Finalize,
    /// No memory: the content stays in the graph and is never sent to the executor.
    NoAlloc,
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Finalize => "finalize",
            Self::NoAlloc => "noalloc",
        })
    }
}

/// A segment of an [`ObjectRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRequest {
    /// The segment's protection once finalized.
    pub protection: Protection,
    /// [`Lifetime::Standard`] or [`Lifetime::Finalize`].
    pub lifetime: Lifetime,
    /// Alignment of the first byte in bytes: a power of two, possibly larger than a page.
    pub alignment: u64,
    /// Size in bytes of the written content.
    pub content_size: u64,
    /// Size in bytes of the zeroes after the content.
    pub zero_fill_size: u64,
    /// The segment's group; 0 for none. Segments of one group have the same protection and
    /// lifetime, and lie together in the order of the request, with nothing but alignment between
    /// them.
    pub group: u32,
}

/// The request for one object of an [`AllocationRequest`].
#[derive(Debug, Clone, Copy)]
pub struct ObjectRequest<'a> {
    /// The object's name, for errors.
    pub name: &'a str,
    /// The object's segments.
    pub segments: &'a [SegmentRequest],
}

/// A request for the memory of objects that are linked together.
#[derive(Debug, Clone, Copy)]
pub struct AllocationRequest<'a> {
    /// The objects.
    pub objects: &'a [ObjectRequest<'a>],
    /// The preferred place.
    pub placement: Placement,
}

impl<'a> AllocationRequest<'a> {
    /// Returns the segments of all objects, one object after the other. An allocation lists all
    /// properties of segments in this order.
    pub fn segments(&self) -> impl Iterator<Item = &'a SegmentRequest> {
        self.objects.iter().flat_map(|object| object.segments)
    }

    /// Returns a name for errors that concern the whole request.
    pub(crate) fn name(&self) -> String {
        match self.objects {
            [] => "no objects".to_owned(),
            [one] => one.name.to_owned(),
            [first, others @ ..] => format!("{} and {} more", first.name, others.len()),
        }
    }
}

/// A provider of memory for linked code (JITLink's `JITLinkMemoryManager`). Any thread may call it
/// at any time.
pub trait MemoryManager: Send + Sync {
    /// Returns the page size of the executing side, in bytes.
    fn page_size(&self) -> u64;

    /// Allocates memory for objects that are linked together: one reservation of at most 2 GiB.
    /// Segments of the same protection and lifetime may share pages, even if they are of different
    /// objects. Group numbers are local to the request.
    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>>;

    /// Runs the deallocate actions of each object, last finalized first and within an object in
    /// reverse order. Then gives back the pages that no other object shares. A failing action stops
    /// nothing; all errors are returned together.
    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()>;
}

/// An allocation that is being written. Dropping it gives the memory back.
pub trait InFlightAllocation: Send {
    /// Returns the address of each segment on the executing side, in the order of the request.
    fn addresses(&self) -> &[u64];

    /// Returns the working memory of each segment: its content, without the zeroes after it. It is
    /// zero at first, and stays at its address while the allocation is in flight.
    fn working_memory(&mut self) -> Vec<&mut [u8]>;

    /// Finalizes the memory. Makes the content visible to the executing side with its final
    /// protections, runs each object's finalize actions in order, and gives back the segments with
    /// lifetime [`Lifetime::Finalize`]. Returns a separate allocation for every object, in the
    /// order of the request.
    ///
    /// If an action fails, the deallocate actions of the completed ones run in reverse order, and
    /// all memory is given back.
    fn finalize(
        self: Box<Self>,
        actions: Vec<Vec<ActionPair>>,
    ) -> Pending<Vec<FinalizedAllocation>>;
}

/// The memory of one object's code. [`MemoryManager::deallocate`] gives it back; dropping the
/// handle does not.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "the memory lives until MemoryManager::deallocate is given this"]
pub struct FinalizedAllocation(u64);

impl FinalizedAllocation {
    /// Creates a handle with a number chosen by its manager.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the manager's number.
    pub fn number(&self) -> u64 {
        self.0
    }
}
