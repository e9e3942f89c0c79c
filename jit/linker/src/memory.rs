//! Memory for linked code: who provides it, where it lies and how long it lives.
//!
//! A [`MemoryManager`] is asynchronous in shape, as JITLink's `JITLinkMemoryManager`: each step returns a future, so that
//! a manager whose memory is in another process can have many requests under way. The managers of this process answer
//! at once, and their futures are ready when they are made.

mod in_process;
mod layout;
mod of_process;
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
pub use of_process::{ProcessMemory, SharedFile, SharedPages};
pub use shared::SharedMemory;
pub use slab::SlabMemory;
pub(crate) use working::{InFlight, WorkingMemory};

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::Result;

/// The answer of a memory manager, now or later. What was asked for is under way already: who drops this does not take it back.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// How long a section's memory lives (JITLink's `MemLifetime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifetime {
    /// Until the allocation is deallocated.
    Standard,
    /// Until the finalize actions have run; then its pages are given back.
    Finalize,
    /// It has none: the content stays in the graph and is never sent to the executor.
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

/// One segment of an [`ObjectRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRequest {
    /// Its protection once finalized.
    pub protection: Protection,
    /// [`Lifetime::Standard`] or [`Lifetime::Finalize`].
    pub lifetime: Lifetime,
    /// Alignment of its first byte in bytes: a power of two, possibly larger than a page.
    pub alignment: u64,
    /// Bytes that will be written.
    pub content_size: u64,
    /// Bytes of zeroes after them.
    pub zero_fill_size: u64,
    /// Segments of one group, which have the same protection and lifetime, lie together in the order of the request, with
    /// nothing between them but what alignment needs. 0 for those without a group.
    pub group: u32,
}

/// What one object of an [`AllocationRequest`] wants.
#[derive(Debug, Clone, Copy)]
pub struct ObjectRequest<'a> {
    /// Its name: appears in errors.
    pub name: &'a str,
    /// Its segments.
    pub segments: &'a [SegmentRequest],
}

/// Memory for objects that are linked together.
#[derive(Debug, Clone, Copy)]
pub struct AllocationRequest<'a> {
    /// The objects.
    pub objects: &'a [ObjectRequest<'a>],
    /// Where they should lie.
    pub placement: Placement,
}

impl<'a> AllocationRequest<'a> {
    /// The segments of all objects, one object after the other: the order of everything that an allocation says about segments.
    pub fn segments(&self) -> impl Iterator<Item = &'a SegmentRequest> {
        self.objects.iter().flat_map(|object| object.segments)
    }

    /// Whom errors that concern them all are about.
    pub(crate) fn name(&self) -> String {
        match self.objects {
            [] => "no objects".to_owned(),
            [one] => one.name.to_owned(),
            [first, others @ ..] => format!("{} and {} more", first.name, others.len()),
        }
    }
}

/// Provides memory for linked code (JITLink's `JITLinkMemoryManager`). Any thread may call it at any time.
pub trait MemoryManager: Send + Sync {
    /// The page size of the executing side, in bytes.
    fn page_size(&self) -> u64;

    /// Memory for objects that are linked together: one reservation of at most two gigabytes. Segments of the same protection
    /// and lifetime may share pages, those of different objects too. Groups are those of this request.
    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>>;

    /// Runs the deallocate actions of each object, last finalized first and within one in reverse order, and gives back the
    /// pages that no other object has a part of. Failing actions stop nothing; their errors come back together.
    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()>;
}

/// Memory that is being written. Dropping it gives it back.
pub trait InFlightAllocation: Send {
    /// The address of each segment on the executing side, in the order of the request.
    fn addresses(&self) -> &[u64];

    /// The working memory of each segment: its content, without the zeroes after it. Zero at first. It stays where it is as
    /// long as the allocation is in flight.
    fn working_memory(&mut self) -> Vec<&mut [u8]>;

    /// Makes the content visible to the executing side with its final protections, runs the finalize actions, which are given
    /// for each object, in order, and gives back the segments with lifetime [`Lifetime::Finalize`]. Every object has memory of
    /// its own from then on, in the order of the request.
    ///
    /// If an action fails, the deallocate actions that belong to those that have run are run in reverse order, and all the
    /// memory is given back.
    fn finalize(
        self: Box<Self>,
        actions: Vec<Vec<ActionPair>>,
    ) -> Pending<Vec<FinalizedAllocation>>;
}

/// Memory in which the code of one object lives. It is given back by [`MemoryManager::deallocate`], and not by dropping this.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "the memory lives until MemoryManager::deallocate is given this"]
pub struct FinalizedAllocation(u64);

impl FinalizedAllocation {
    /// A handle with a number that means something to its manager.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number it was made with.
    pub fn number(&self) -> u64 {
        self.0
    }
}
