//! Collective operations: copies and reductions over the memory of several devices.

mod combine;
mod copies;

pub use combine::{Reducible, combine_elements};

use crate::device::Device;
use crate::memory::element::{bytes as bytes_of, bytes_mut as bytes_of_mut};
use crate::memory::{BufferSlice, Element};
use crate::queue::Queue;
use crate::{Grid, Kernel};
use copies::{Ends, Operation};
use longshore_plugin_api::{
    CollectiveKind, CollectiveMember, CollectiveOperation, CollectiveRequest, CollectiveRoot,
    Device as _, Error, ErrorCode, Result,
};

/// Devices that perform collective operations together, each by one of its queues.
///
/// Devices of one platform perform an operation by the platform's own means, where it has some. So
/// devices on nodes of a cluster use the operations of MPI, and the data does not go through the
/// program. Other devices exchange the data by copies.
///
/// An operation waits for the queued work of all queues of the group first, and blocks until every
/// member has its result. Any thread may call the methods. After an error, the destinations of the
/// operation have any content.
///
/// ```
/// use longshore::{CollectiveOperation, Group, Host};
///
/// let host = Host::new()?;
/// let devices = host.devices().iter().map(|entry| entry.open()).collect::<Result<Vec<_>, _>>()?;
/// # if devices.is_empty() { return Ok(()) }
/// let queues = devices.iter().map(|device| device.queue()).collect::<Result<Vec<_>, _>>()?;
/// let group = Group::new(&queues)?;
///
/// let buffers = queues.iter().map(|queue| queue.device().buffer::<f32>(queue, 1024));
/// let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
/// let slices: Vec<_> = buffers.iter().map(|buffer| buffer.as_slice()).collect();
/// group.broadcast_from_host(&[1.0; 1024], &slices)?;
/// group.all_reduce(CollectiveOperation::Sum, &slices, &slices)?;
/// assert_eq!(buffers[0].to_vec(&queues[0])?[7], devices.len() as f32);
/// # Ok::<(), longshore::Error>(())
/// ```
pub struct Group<'a> {
    queues: Vec<&'a Queue>,
}

impl<'a> Group<'a> {
    /// Creates a group of the devices of these queues; the place of a queue is the member's index.
    ///
    /// # Errors
    /// `InvalidSize` without a queue.
    pub fn new(queues: impl IntoIterator<Item = &'a Queue>) -> Result<Group<'a>> {
        let queues: Vec<_> = queues.into_iter().collect();
        match queues.is_empty() {
            true => Err(Error::new(ErrorCode::InvalidSize, "a group has at least one member")),
            false => Ok(Group { queues }),
        }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Returns false: a group has members.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Copies the buffer of member `root` to the buffers of the other members. MPI: `MPI_Bcast`.
    ///
    /// # Errors
    /// `InvalidSize` unless there is a buffer for each member, all of one length, and a member
    /// `root`. `InvalidDevice` for a buffer of another device than the member's; errors of earlier
    /// work and of the driver.
    pub fn broadcast<T: Element>(&self, root: usize, buffers: &[BufferSlice<'_, T>]) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        let root = CollectiveRoot::Member(self.member(root)?);
        let ends = buffers.iter().map(|buffer| (Some(*buffer), Some(*buffer))).collect();
        self.perform(Operation::new(CollectiveKind::Broadcast, root, bytes, ends))
    }

    /// Copies data of the program to the buffers of all members. MPI: `MPI_Bcast`.
    ///
    /// # Errors
    /// As for [`Group::broadcast`]; `InvalidSize` for data of another length.
    pub fn broadcast_from_host<T: Element>(
        &self,
        data: &[T],
        buffers: &[BufferSlice<'_, T>],
    ) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        let data = bytes_of(data);
        same_size(data.len() as u64, bytes, "data")?;
        let root = CollectiveRoot::Host(data.as_ptr() as u64);
        let ends = buffers.iter().map(|buffer| (None, Some(*buffer))).collect();
        self.perform(Operation::new(CollectiveKind::Broadcast, root, bytes, ends))
    }

    /// Copies the buffers of all members, in their order, to `into` on the device of member `root`.
    /// MPI: `MPI_Gather`.
    ///
    /// # Errors
    /// As for [`Group::broadcast`]; `InvalidSize` unless `into` has room for all buffers exactly.
    pub fn gather<'b, T: Element>(
        &self,
        buffers: &[BufferSlice<'b, T>],
        root: usize,
        into: BufferSlice<'b, T>,
    ) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        let index = self.member(root)?;
        self.check_one(root, &into, bytes * self.len() as u64)?;
        let (kind, to) = (CollectiveKind::Gather, CollectiveRoot::Member(index));
        self.perform(Operation::new(kind, to, bytes, ends_at_member(buffers, root, into)))
    }

    /// Copies the buffers of all members, in their order, to memory of the program. MPI:
    /// `MPI_Gather`.
    ///
    /// # Errors
    /// As for [`Group::gather`].
    pub fn gather_to_host<T: Element>(
        &self,
        buffers: &[BufferSlice<'_, T>],
        into: &mut [T],
    ) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        let into = bytes_of_mut(into);
        same_size(into.len() as u64, bytes * self.len() as u64, "destination")?;
        let root = CollectiveRoot::Host(into.as_mut_ptr() as u64);
        self.perform(Operation::new(CollectiveKind::Gather, root, bytes, ends_at_host(buffers)))
    }

    /// Copies the buffers of all members, in their order, to each buffer of `into`. MPI:
    /// `MPI_Allgather`.
    ///
    /// # Errors
    /// As for [`Group::gather`], for each buffer of `into`.
    pub fn all_gather<'b, T: Element>(
        &self,
        buffers: &[BufferSlice<'b, T>],
        into: &[BufferSlice<'b, T>],
    ) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        let gathered = self.check(into, "destinations")?;
        same_size(gathered, bytes * self.len() as u64, "destination")?;
        let (kind, root) = (CollectiveKind::AllGather, CollectiveRoot::None);
        self.perform(Operation::new(kind, root, bytes, ends_at_all(buffers, into)))
    }

    /// Combines the elements at each index of all buffers, and writes the results to `into` on the
    /// device of member `root`, which may be the member's buffer. The order in which
    /// floating-point numbers are added is not specified. MPI: `MPI_Reduce`.
    ///
    /// # Errors
    /// As for [`Group::broadcast`], also for `into`. `InvalidArgument` for a bitwise operation on
    /// floating-point numbers.
    pub fn reduce<'b, T: Reducible>(
        &self,
        operation: CollectiveOperation,
        buffers: &[BufferSlice<'b, T>],
        root: usize,
        into: BufferSlice<'b, T>,
    ) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        let index = self.member(root)?;
        self.check_one(root, &into, bytes)?;
        let reduction = combine::checked::<T>(operation)?;
        let (kind, to) = (CollectiveKind::Reduce, CollectiveRoot::Member(index));
        let reduce = Operation::new(kind, to, bytes, ends_at_member(buffers, root, into));
        self.perform(reduce.with_reduction(reduction))
    }

    /// Combines the elements at each index of all buffers, and writes the results to memory of the
    /// program. MPI: `MPI_Reduce`.
    ///
    /// # Errors
    /// As for [`Group::reduce`].
    pub fn reduce_to_host<T: Reducible>(
        &self,
        operation: CollectiveOperation,
        buffers: &[BufferSlice<'_, T>],
        into: &mut [T],
    ) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        let into = bytes_of_mut(into);
        same_size(into.len() as u64, bytes, "destination")?;
        let reduction = combine::checked::<T>(operation)?;
        let root = CollectiveRoot::Host(into.as_mut_ptr() as u64);
        let reduce = Operation::new(CollectiveKind::Reduce, root, bytes, ends_at_host(buffers));
        self.perform(reduce.with_reduction(reduction))
    }

    /// Combines the elements at each index of all buffers, and writes the results to each buffer of
    /// `into`, which may be the members' buffers. MPI: `MPI_Allreduce`.
    ///
    /// # Errors
    /// As for [`Group::reduce`], for each buffer of `into`.
    pub fn all_reduce<'b, T: Reducible>(
        &self,
        operation: CollectiveOperation,
        buffers: &[BufferSlice<'b, T>],
        into: &[BufferSlice<'b, T>],
    ) -> Result<()> {
        let bytes = self.check(buffers, "buffers")?;
        same_size(self.check(into, "destinations")?, bytes, "destination")?;
        let reduction = combine::checked::<T>(operation)?;
        let (kind, root) = (CollectiveKind::AllReduce, CollectiveRoot::None);
        let reduce = Operation::new(kind, root, bytes, ends_at_all(buffers, into));
        self.perform(reduce.with_reduction(reduction))
    }

    /// Combines the buffers of all members by a kernel, pair by pair, into the buffer of member
    /// `root`. The buffers of the other members have any content afterwards. `kernels` has the
    /// kernel for each member, with the arguments `(T *into, const T *other, uint64_t count)`.
    ///
    /// # Errors
    /// As for [`Group::broadcast`]; `InvalidSize` unless there is a kernel for each member; errors
    /// of [`Queue::launch`].
    ///
    /// # Safety
    /// As for [`Queue::launch`], with these arguments and this grid.
    pub unsafe fn reduce_with<T: Element>(
        &self,
        kernels: &[&Kernel],
        grid: Grid,
        buffers: &[BufferSlice<'_, T>],
        root: usize,
    ) -> Result<()> {
        self.check(buffers, "buffers")?;
        self.member(root)?;
        if kernels.len() != self.len() {
            let message =
                format!("{} kernels for a group of {} members", kernels.len(), self.len());
            return Err(Error::new(ErrorCode::InvalidSize, message));
        }
        self.settle(buffers)?;
        // SAFETY: promised by the caller.
        unsafe { copies::reduce_with(&self.queues, kernels, grid, buffers, root) }
    }

    /// Performs an operation by the means of the platform, else by copies.
    fn perform<T: Element>(&self, operation: Operation<'_, T>) -> Result<()> {
        let slices = operation.ends.iter().flat_map(|(from, to)| [from, to]);
        for slice in slices.flatten() {
            self.settle_one(slice)?;
        }
        self.queues.iter().try_for_each(|queue| queue.synchronize())?;
        if operation.bytes == 0 {
            return Ok(());
        }
        let first = self.queues[0].device();
        let is_one_platform = self.queues.iter().all(|queue| queue.device().same_platform(first));
        if is_one_platform {
            match self.request(&operation) {
                Err(error) if error.code() == ErrorCode::Unsupported => {}
                performed => return performed,
            }
        }
        operation.by_copies(&self.queues)
    }

    fn request<T: Element>(&self, operation: &Operation<'_, T>) -> Result<()> {
        let devices = self.queues.iter().map(|queue| queue.device().remote());
        let devices = devices.collect::<Result<Vec<_>>>()?;
        let address = |slice: &Option<BufferSlice<'_, T>>| {
            slice.as_ref().map_or(0, |slice| slice.pointer().address())
        };
        let ends = devices.iter().zip(&operation.ends);
        let members = ends.map(|(device, (from, to))| CollectiveMember {
            device: &***device,
            source: address(from),
            destination: address(to),
        });
        let (kind, root, bytes) = (operation.kind, operation.root, operation.bytes);
        // SAFETY: the slices are live during the call, and the host's memory is borrowed by the
        // callers.
        let mut request = unsafe { CollectiveRequest::new(kind, root, bytes, members.collect()) };
        request.reduction = operation.reduction;
        devices[0].collective(&request)
    }

    /// Waits for the fill with zeros of a new buffer, which another queue may perform.
    fn settle_one<T: Element>(&self, slice: &BufferSlice<'_, T>) -> Result<()> {
        let mut queues = self.queues.iter();
        let queue = queues.find(|queue| queue.device().id() == slice.device().id());
        match queue {
            Some(queue) => slice.buffer().behind_zeros(queue, || queue.synchronize()),
            None => Ok(()),
        }
    }

    fn settle<T: Element>(&self, slices: &[BufferSlice<'_, T>]) -> Result<()> {
        slices.iter().try_for_each(|slice| self.settle_one(slice))?;
        self.queues.iter().try_for_each(|queue| queue.synchronize())
    }

    fn member(&self, root: usize) -> Result<u32> {
        if root < self.len() {
            return Ok(root as u32);
        }
        let message = format!("member {root} of a group of {} members", self.len());
        Err(Error::new(ErrorCode::InvalidSize, message))
    }

    /// Checks that there is a buffer of one length for each member, on its device. Returns the size
    /// of one in bytes.
    fn check<T: Element>(&self, buffers: &[BufferSlice<'_, T>], what: &str) -> Result<u64> {
        if buffers.len() != self.len() {
            let message = format!("{} {what} for a group of {} members", buffers.len(), self.len());
            return Err(Error::new(ErrorCode::InvalidSize, message));
        }
        let bytes = buffers[0].bytes();
        for (member, buffer) in buffers.iter().enumerate() {
            self.check_one(member, buffer, bytes)?;
        }
        Ok(bytes)
    }

    fn check_one<T: Element>(
        &self,
        member: usize,
        buffer: &BufferSlice<'_, T>,
        bytes: u64,
    ) -> Result<()> {
        let device: &Device = self.queues[member].device();
        device.check_same(buffer.device(), "the buffer")?;
        same_size(buffer.bytes(), bytes, "buffer")
    }
}

/// Returns the ends of an operation whose result goes to `into` at member `root`.
fn ends_at_member<'a, T: Element>(
    buffers: &[BufferSlice<'a, T>],
    root: usize,
    into: BufferSlice<'a, T>,
) -> Vec<Ends<'a, T>> {
    let to = |member| (member == root).then_some(into);
    buffers.iter().enumerate().map(|(member, from)| (Some(*from), to(member))).collect()
}

/// Returns the ends of an operation whose result goes to the program.
fn ends_at_host<'a, T: Element>(buffers: &[BufferSlice<'a, T>]) -> Vec<Ends<'a, T>> {
    buffers.iter().map(|from| (Some(*from), None)).collect()
}

/// Returns the ends of an operation whose result goes to `into` at each member.
fn ends_at_all<'a, T: Element>(
    buffers: &[BufferSlice<'a, T>],
    into: &[BufferSlice<'a, T>],
) -> Vec<Ends<'a, T>> {
    buffers.iter().zip(into).map(|(from, to)| (Some(*from), Some(*to))).collect()
}

fn same_size(found: u64, expected: u64, what: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let message = format!("a {what} of {found} bytes, expected {expected}");
    Err(Error::new(ErrorCode::InvalidSize, message))
}
