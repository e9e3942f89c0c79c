//! The functions of memory: allocations, copies, fills and hints.

use crate::context::current;
use crate::given;
use crate::info::{self, InfoReply};
use crate::objects::device::DeviceObject;
use crate::objects::queue;
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{
    AllocationInfo, AllocationOwner, Device, DevicePointer, Error, ErrorCode, MemoryKind,
    PrefetchTarget, Queue, Result,
};
use std::ffi::c_void;
use std::ptr;

/// Alignment of memory without a requested alignment, in bytes.
const ALIGNMENT: usize = 64;

pub(crate) unsafe fn allocate(
    device: ol_device_handle_t,
    kind: ol_alloc_type_t,
    bytes: usize,
    address: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: promised by the caller.
    unsafe { allocate_aligned(device, kind, bytes, ALIGNMENT, address) }
}

pub(crate) unsafe fn allocate_aligned(
    device: ol_device_handle_t,
    kind: ol_alloc_type_t,
    bytes: usize,
    alignment: usize,
    address: *mut *mut c_void,
) -> Result<()> {
    let context = current()?;
    let device = context.device(device)?.get()?;
    let kind = match kind {
        OL_ALLOC_TYPE_HOST => MemoryKind::Host,
        OL_ALLOC_TYPE_DEVICE => MemoryKind::Device,
        OL_ALLOC_TYPE_MANAGED => MemoryKind::Managed,
        ol_alloc_type_t(unknown) => {
            let message = format!("{unknown} is not an ol_alloc_type_t");
            return Err(Error::new(ErrorCode::InvalidEnumeration, message));
        }
    };
    let allocation = device.allocate(kind, bytes as u64, alignment as u64)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(address, allocation.pointer().address() as *mut c_void)? };
    allocation.into_raw();
    Ok(())
}

pub(crate) unsafe fn free(address: *mut c_void) -> Result<()> {
    given::check_pointer(address)?;
    // SAFETY: promised by the caller.
    unsafe { current()?.host.free(DevicePointer(address as u64)) }
}

fn reply(address: *const c_void, query: ol_mem_info_t) -> Result<InfoReply> {
    let context = current()?;
    given::check_pointer(address)?;
    let found = context.host.allocation_at(DevicePointer(address as u64))?;
    let AllocationInfo { base, bytes, owner: AllocationOwner::Allocation { kind, .. }, .. } = found
    else {
        let message = format!("{address:p} is in a variable of a program, expected an allocation");
        return Err(Error::new(ErrorCode::NotFound, message));
    };
    match query {
        OL_MEM_INFO_DEVICE => {
            context.open_device(found.device).map(|(handle, _)| InfoReply::from_handle(handle))
        }
        OL_MEM_INFO_BASE => Ok(InfoReply::Word(base as usize)),
        OL_MEM_INFO_SIZE => Ok(InfoReply::Word(bytes as usize)),
        OL_MEM_INFO_TYPE => Ok(InfoReply::U32(match kind {
            MemoryKind::Host => OL_ALLOC_TYPE_HOST.0,
            MemoryKind::Device => OL_ALLOC_TYPE_DEVICE.0,
            MemoryKind::Managed => OL_ALLOC_TYPE_MANAGED.0,
            // The number of a kind that LLVM does not know yet.
            kind => kind as u32,
        })),
        _ => Err(info::unknown("piece of memory", query.0)),
    }
}

info::queries!(*const c_void, ol_mem_info_t);

pub(crate) unsafe fn prefetch(
    queue: ol_queue_handle_t,
    count: usize,
    starts: *mut *const c_void,
    sizes: *const usize,
    flags: ol_mem_migration_flags_t,
) -> Result<()> {
    let known = OL_MEM_MIGRATION_FLAG_HOST_TO_DEVICE.0 | OL_MEM_MIGRATION_FLAG_DEVICE_TO_HOST.0;
    given::check_flags(flags, known)?;
    let queue = queue::from_handle(queue)?;
    if count == 0 {
        return Ok(());
    }
    let target = match flags & OL_MEM_MIGRATION_FLAG_DEVICE_TO_HOST.0 {
        0 => PrefetchTarget::Device,
        _ => PrefetchTarget::Host,
    };
    // SAFETY: promised by the caller.
    let (starts, sizes) = unsafe { (given::list(starts, count)?, given::list(sizes, count)?) };
    for (start, bytes) in starts.iter().zip(sizes).filter(|(_, bytes)| **bytes > 0) {
        match queue.prefetch(DevicePointer(*start as u64), *bytes as u64, target) {
            Err(error) if is_inapplicable_hint(error.code()) => log::debug!("{error}"),
            hinted => hinted?,
        }
    }
    Ok(())
}

/// Returns whether a hint does not apply: memory outside allocations takes no hints, and not every
/// device moves memory.
fn is_inapplicable_hint(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidArgument | ErrorCode::InvalidSize | ErrorCode::Unsupported)
}

pub(crate) unsafe fn copy(
    queue: ol_queue_handle_t,
    to: *mut c_void,
    to_device: ol_device_handle_t,
    from: *const c_void,
    from_device: ol_device_handle_t,
    bytes: usize,
) -> Result<()> {
    let queue = if queue.is_null() { None } else { Some(queue::from_handle(queue)?) };
    let shares_memory = queue.as_ref().is_some_and(|queue| queue.shares_memory());
    let copy = Copy { to, from, bytes, shares_memory };
    if let Some(queue) = &queue
        && shares_memory
        && [to_device, from_device] == [queue.device_handle(); 2]
    {
        copy.check()?;
        // SAFETY: promised by the caller.
        return unsafe { copy.queue(queue, true, true) };
    }
    let context = current()?;
    let to_device = context.device(to_device)?;
    let from_device = context.device(from_device)?;
    copy.check()?;
    let to_host = to_device.is_of_program(to);
    let from_host = from_device.is_of_program(from);
    let device = if to_host { from_device } else { to_device };
    // SAFETY: promised by the caller.
    let work = |queue: &Queue| unsafe { copy.queue(queue, to_host, from_host) };
    let Some(queue) = queue else {
        if to_host && from_host {
            // SAFETY: promised by the caller; the ranges may overlap.
            unsafe { ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
            return Ok(());
        }
        return on_any_queue(device, work);
    };
    if to_host != from_host && !is_of_platform(queue.device(), device.get()?) {
        // Another plugin's queue cannot do the copy.
        queue.synchronize()?;
        return on_any_queue(device, work);
    }
    work(&queue)
}

/// A copy between two ranges.
struct Copy {
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    /// Whether the queue's device and the program share all memory.
    shares_memory: bool,
}

impl Copy {
    /// # Errors
    /// `InvalidNullPointer` and `InvalidSize` for either range.
    #[inline]
    fn check(&self) -> Result<()> {
        given::check_pointer(self.to)?;
        given::check_pointer(self.from)?;
        given::check_range(self.to, self.bytes)?;
        given::check_range(self.from, self.bytes)
    }

    /// Queues the copy.
    ///
    /// # Safety
    /// Both ranges stay valid until the copy is done.
    unsafe fn queue(&self, queue: &Queue, to_host: bool, from_host: bool) -> Result<()> {
        let &Copy { to, from, bytes, .. } = self;
        let (there, source, size) =
            (DevicePointer(to as u64), DevicePointer(from as u64), bytes as u64);
        // SAFETY: promised by the caller.
        unsafe {
            match (to_host, from_host) {
                _ if bytes == 0 => Ok(()),
                (true, true) if self.shares_memory => queue.copy_on_host(to, from, size),
                (true, true) => self.queue_function(queue),
                (false, true) => queue.copy_from_host(there, from, size),
                (true, false) => queue.copy_to_host(to, source, size),
                (false, false) => queue.copy(there, source, size),
            }
        }
    }

    /// Queues the copy as a function of the program, as a backend of another kind may copy
    /// overlapping ranges differently.
    ///
    /// # Safety
    /// As for [`Copy::queue`].
    unsafe fn queue_function(&self, queue: &Queue) -> Result<()> {
        let (to, from, bytes) = (self.to as usize, self.from as usize, self.bytes);
        queue.host_function(move || {
            // SAFETY: promised by the caller.
            unsafe { ptr::copy(from as *const u8, to as *mut u8, bytes) };
        })
    }
}

fn is_of_platform(one: &Device, other: &Device) -> bool {
    one.backend() == other.backend()
}

pub(crate) unsafe fn fill(
    queue: ol_queue_handle_t,
    to: *mut c_void,
    pattern_bytes: usize,
    pattern: *const c_void,
    bytes: usize,
) -> Result<()> {
    given::check_pointer(to)?;
    // SAFETY: promised by the caller.
    let pattern = unsafe { given::list(pattern.cast::<u8>(), pattern_bytes) }?;
    let address = DevicePointer(to as u64);
    // SAFETY: promised by the caller.
    let work = |queue: &Queue| unsafe { queue.fill(address, pattern, bytes as u64) };
    if !queue.is_null() {
        return work(&*queue::from_handle(queue)?);
    }
    let context = current()?;
    let owner = context.host.allocation_at(address).map_err(|error| {
        // The code is the one that a queue returns.
        Error::new(ErrorCode::InvalidArgument, error.message())
    })?;
    let (_, device) = context.open_device(owner.device)?;
    on_any_queue(device, work)
}

/// Runs work on a queue of a device, and waits for it.
///
/// # Errors
/// Errors of `work` and of the wait.
fn on_any_queue(device: &DeviceObject, work: impl FnOnce(&Queue) -> Result<()>) -> Result<()> {
    let queue = device.get()?.queue()?;
    let done = work(&queue);
    // The wait is needed also after a failure: work queued before uses the caller's memory.
    queue.synchronize().and(done)
}
