//! Collective operations by copies between devices.

use super::combine::combine_elements;
use crate::memory::{Buffer, BufferSlice, Element};
use crate::queue::Queue;
use crate::{Grid, Kernel};
use longshore_plugin_api::{
    CollectiveElement, CollectiveKind, CollectiveOperation, CollectiveRoot, Error, ErrorCode,
    Result,
};

/// Source and destination of a member.
pub(super) type Ends<'a, T> = (Option<BufferSlice<'a, T>>, Option<BufferSlice<'a, T>>);

/// A checked operation.
pub(super) struct Operation<'a, T: Element> {
    pub(super) kind: CollectiveKind,
    pub(super) root: CollectiveRoot,
    pub(super) reduction: Option<(CollectiveElement, CollectiveOperation)>,
    /// Bytes of each member.
    pub(super) bytes: u64,
    pub(super) ends: Vec<Ends<'a, T>>,
}

impl<'a, T: Element> Operation<'a, T> {
    /// Creates an operation that copies.
    pub(super) fn new(
        kind: CollectiveKind,
        root: CollectiveRoot,
        bytes: u64,
        ends: Vec<Ends<'a, T>>,
    ) -> Self {
        Self { kind, root, reduction: None, bytes, ends }
    }

    /// Makes the operation combine elements.
    pub(super) fn with_reduction(
        self,
        reduction: (CollectiveElement, CollectiveOperation),
    ) -> Self {
        Self { reduction: Some(reduction), ..self }
    }
}

impl<T: Element> Operation<'_, T> {
    /// Performs the operation by copies. Blocks until it is done.
    ///
    /// # Errors
    /// Errors of copies.
    pub(super) fn by_copies(&self, queues: &[&Queue]) -> Result<()> {
        match self.kind {
            CollectiveKind::Broadcast => self.broadcast(queues),
            CollectiveKind::Gather | CollectiveKind::AllGather => self.gather(queues),
            _ => self.reduce(queues),
        }
    }

    /// Passes the data on in rounds: each member that has it sends it to one that has not.
    fn broadcast(&self, queues: &[&Queue]) -> Result<()> {
        let first = match self.root {
            CollectiveRoot::Host(address) => {
                // SAFETY: the caller of the operation has borrowed the data.
                let data = unsafe {
                    std::slice::from_raw_parts(address as *const u8, self.bytes as usize)
                };
                let to = self.to(0)?;
                queues[0].write_to(to.pointer(), to.device(), data)?;
                0
            }
            CollectiveRoot::Member(index) => index as usize,
            CollectiveRoot::None => 0,
        };
        let mut order: Vec<usize> = (0..queues.len()).filter(|member| *member != first).collect();
        order.insert(0, first);
        let mut holders = 1;
        while holders < order.len() {
            let receivers = holders..order.len().min(2 * holders);
            for place in receivers.clone() {
                let (from, to) = (self.to(order[place - holders])?, self.to(order[place])?);
                let ends = (to.place(), from.place());
                queues[order[place]].copy_between(ends.0, ends.1, self.bytes, false)?;
            }
            holders = receivers.end;
            receivers.into_iter().try_for_each(|place| queues[order[place]].synchronize())?;
        }
        Ok(())
    }

    fn gather(&self, queues: &[&Queue]) -> Result<()> {
        if let CollectiveRoot::Host(address) = self.root {
            for (member, queue) in queues.iter().enumerate() {
                let (from, at) = (self.from(member)?, self.bytes * member as u64);
                // SAFETY: the caller of the operation has borrowed memory for all members.
                let into = unsafe {
                    std::slice::from_raw_parts_mut((address + at) as *mut u8, self.bytes as usize)
                };
                queue.read_from(from.pointer(), from.device(), into)?;
            }
            return Ok(());
        }
        for (_, into) in &self.ends {
            let Some(into) = into else { continue };
            let is_of = |queue: &&&Queue| queue.device().id() == into.device().id();
            let queue = queues.iter().find(is_of).ok_or_else(absent)?;
            for member in 0..queues.len() {
                let from = self.from(member)?;
                let to = into.pointer().offset((self.bytes * member as u64) as i64);
                queue.copy_between((to, into.device()), from.place(), self.bytes, false)?;
            }
            queue.synchronize()?;
        }
        Ok(())
    }

    fn reduce(&self, queues: &[&Queue]) -> Result<()> {
        let (element, operation) = self.reduction.ok_or_else(absent)?;
        let mut result = vec![0; self.bytes as usize];
        let mut other = vec![0; self.bytes as usize];
        for (member, queue) in queues.iter().enumerate() {
            let from = self.from(member)?;
            let into = if member == 0 { &mut result } else { &mut other };
            queue.read_from(from.pointer(), from.device(), into)?;
            if member > 0 {
                combine_elements(element, operation, &mut result, &other);
            }
        }
        if let CollectiveRoot::Host(address) = self.root {
            // SAFETY: the caller of the operation has borrowed the memory.
            unsafe {
                let into = address as *mut u8;
                std::ptr::copy_nonoverlapping(result.as_ptr(), into, result.len());
            }
        }
        for ((_, into), queue) in self.ends.iter().zip(queues) {
            if let Some(into) = into {
                queue.write_to(into.pointer(), into.device(), &result)?;
            }
        }
        Ok(())
    }

    fn from(&self, member: usize) -> Result<&BufferSlice<'_, T>> {
        self.ends[member].0.as_ref().ok_or_else(absent)
    }

    fn to(&self, member: usize) -> Result<&BufferSlice<'_, T>> {
        self.ends[member].1.as_ref().ok_or_else(absent)
    }
}

fn absent() -> Error {
    Error::new(ErrorCode::InvalidArgument, "a collective operation lacks a buffer")
}

/// Combines the buffers pair by pair: in each round half of the remaining members take the buffers
/// of the other half.
///
/// # Errors
/// Errors of allocations, copies and launches.
///
/// # Safety
/// As for [`Group::reduce_with`](super::Group::reduce_with).
pub(super) unsafe fn reduce_with<T: Element>(
    queues: &[&Queue],
    kernels: &[&Kernel],
    grid: Grid,
    buffers: &[BufferSlice<'_, T>],
    root: usize,
) -> Result<()> {
    let count = queues.len();
    let member = |place: usize| (place + root) % count;
    let mut scratch: Vec<Option<Buffer<T>>> = (0..count).map(|_| None).collect();
    let mut remaining = count;
    while remaining > 1 {
        let half = remaining.div_ceil(2);
        for place in half..remaining {
            let (taker, giver) = (member(place - half), member(place));
            let (queue, buffer) = (queues[taker], &buffers[taker]);
            if scratch[taker].is_none() {
                scratch[taker] = Some(queue.device().buffer::<T>(queue, buffer.len())?);
            }
            let other = scratch[taker].as_ref().ok_or_else(absent)?;
            other.as_slice().copy_from(queue, buffers[giver])?;
            let arguments = (buffer.pointer(), other, buffer.len() as u64);
            // SAFETY: promised by the caller; both buffers live until the queue is waited for.
            unsafe { queue.launch(kernels[taker], grid, arguments)? };
        }
        for place in half..remaining {
            queues[member(place - half)].synchronize()?;
        }
        remaining = half;
    }
    Ok(())
}
