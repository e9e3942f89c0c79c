//! "longshore.queue", "longshore.event" and "longshore.prefetch".

use super::{guard, known, lent, take_back};
use crate::abi::{self, DeviceHandle, ErrorObject, EventHandle, QueueHandle};
use crate::backend::{Event, Plugin, Queue};
use crate::error::{Error, ErrorCode, Result};
use crate::raw::read_bytes;
use crate::request::{
    Arguments, CopyRequest, HostFunction, LaunchShape, Place, PrefetchTarget, Span,
};

pub(super) const fn table<P: Plugin>() -> &'static abi::QueueTable {
    &abi::QueueTable {
        launch: launch::<P>,
        copy: copy::<P>,
        fill: fill::<P>,
        host_function: host_function::<P>,
        wait_event: wait_event::<P>,
        record_event: record_event::<P>,
        is_idle: is_idle::<P>,
        synchronize: synchronize::<P>,
        destroy: destroy::<P>,
    }
}

pub(super) const fn event_table<P: Plugin>() -> &'static abi::EventTable {
    &abi::EventTable {
        is_complete: event_is_complete::<P>,
        synchronize: event_synchronize::<P>,
        elapsed: event_elapsed::<P>,
        destroy: event_destroy::<P>,
    }
}

pub(super) const fn cluster_table<P: Plugin>() -> &'static abi::ClusterTable {
    &abi::ClusterTable { launch: launch_in_clusters::<P> }
}

pub(super) const fn prefetch_table<P: Plugin>() -> &'static abi::PrefetchTable {
    &abi::PrefetchTable { prefetch: prefetch::<P> }
}

/// The queue behind a handle.
///
/// # Safety
/// `queue` is a queue of ours that was not destroyed.
#[inline]
unsafe fn of<'a, P: Plugin>(queue: *mut QueueHandle) -> &'a P::Queue {
    // SAFETY: promised by the caller.
    unsafe { lent(queue) }
}

/// The event behind a handle.
///
/// # Safety
/// `event` is an event of ours that was not destroyed.
unsafe fn event_of<'a, P: Plugin>(event: *mut EventHandle) -> &'a P::Event {
    // SAFETY: promised by the caller.
    unsafe { lent(event) }
}

fn known_flags(what: &str, flags: u32, all: u32) -> Result<()> {
    if flags & !all == 0 {
        return Ok(());
    }
    let message = format!("unknown {what} flags {:#x}", flags & !all);
    Err(Error::new(ErrorCode::Unsupported, message))
}

unsafe extern "C" fn launch<P: Plugin>(
    queue: *mut QueueHandle,
    launch: *const abi::Launch,
) -> *mut ErrorObject {
    // SAFETY: a queue of ours, a readable request with a kernel of a loaded module of ours, and
    // arguments that the program vouches for.
    guard::<P>("queue.launch", || unsafe {
        let raw = &*launch;
        let shape = shape(raw)?;
        of::<P>(queue).launch(lent::<P::Kernel, _>(raw.kernel), &shape, arguments(raw))
    })
}

unsafe extern "C" fn launch_in_clusters<P: Plugin>(
    queue: *mut QueueHandle,
    launch: *const abi::Launch,
    cluster: *const [u32; 3],
) -> *mut ErrorObject {
    // SAFETY: as for `launch`; the sizes are readable.
    guard::<P>("queue.launch_in_clusters", || unsafe {
        let raw = &*launch;
        let (kernel, shape) = (lent::<P::Kernel, _>(raw.kernel), shape(raw)?);
        of::<P>(queue).launch_in_clusters(kernel, &shape, *cluster, arguments(raw))
    })
}

fn shape(raw: &abi::Launch) -> Result<LaunchShape> {
    known_flags("launch", raw.flags, abi::LAUNCH_COOPERATIVE | abi::LAUNCH_WAIT)?;
    Ok(LaunchShape {
        groups: raw.groups,
        items: raw.items,
        dynamic_shared_bytes: raw.dynamic_shared_bytes,
        cooperative: raw.flags & abi::LAUNCH_COOPERATIVE != 0,
        wait: raw.flags & abi::LAUNCH_WAIT != 0,
    })
}

/// # Safety
/// The program vouches for the arguments.
unsafe fn arguments(raw: &abi::Launch) -> Arguments<'_> {
    let count = raw.argument_count as usize;
    // SAFETY: promised by the caller.
    unsafe { Arguments::from_raw(raw.arguments, raw.argument_sizes, count) }
}

unsafe extern "C" fn copy<P: Plugin>(
    queue: *mut QueueHandle,
    copy: *const abi::CopyRequest,
) -> *mut ErrorObject {
    /// # Safety
    /// `device` is null or an open device of ours.
    unsafe fn place<'a, D>(device: *mut DeviceHandle) -> Place<'a, D> {
        if device.is_null() {
            return Place::Host;
        }
        // SAFETY: promised by the caller.
        Place::Device(unsafe { lent(device) })
    }
    // SAFETY: a queue of ours, a readable request, and ranges that the program vouches for.
    guard::<P>("queue.copy", || unsafe {
        let raw = &*copy;
        known_flags("copy", raw.flags, abi::COPY_WAIT)?;
        of::<P>(queue).copy(&CopyRequest {
            destination: Span::new(raw.destination, raw.bytes),
            destination_place: place(raw.destination_device),
            source: Span::new(raw.source, raw.bytes),
            source_place: place(raw.source_device),
            wait: raw.flags & abi::COPY_WAIT != 0,
        })
    })
}

unsafe extern "C" fn fill<P: Plugin>(
    queue: *mut QueueHandle,
    fill: *const abi::Fill,
) -> *mut ErrorObject {
    // SAFETY: a queue of ours, a readable request, and a range that the program vouches for.
    guard::<P>("queue.fill", || unsafe {
        let raw = &*fill;
        known_flags("fill", raw.flags, abi::FILL_WAIT)?;
        let destination = Span::new(raw.destination, raw.bytes);
        let wait = raw.flags & abi::FILL_WAIT != 0;
        of::<P>(queue).fill(destination, read_bytes(raw.pattern), wait)
    })
}

unsafe extern "C" fn host_function<P: Plugin>(
    queue: *mut QueueHandle,
    function: abi::HostFunction,
) -> *mut ErrorObject {
    // SAFETY: a queue of ours, and a function that the host promises to be callable once.
    guard::<P>("queue.host_function", || unsafe {
        of::<P>(queue).host_function(HostFunction::from_raw(function))
    })
}

unsafe extern "C" fn wait_event<P: Plugin>(
    queue: *mut QueueHandle,
    event: *mut EventHandle,
) -> *mut ErrorObject {
    // SAFETY: a queue and an event of ours.
    guard::<P>("queue.wait_event", || unsafe { of::<P>(queue).wait_event(event_of::<P>(event)) })
}

unsafe extern "C" fn record_event<P: Plugin>(
    queue: *mut QueueHandle,
    event: *mut EventHandle,
) -> *mut ErrorObject {
    // SAFETY: a queue and an event of ours.
    guard::<P>("queue.record_event", || unsafe {
        of::<P>(queue).record_event(event_of::<P>(event))
    })
}

unsafe extern "C" fn is_idle<P: Plugin>(
    queue: *mut QueueHandle,
    idle: *mut u32,
) -> *mut ErrorObject {
    // SAFETY: a queue of ours and a place to write to.
    guard::<P>("queue.is_idle", || unsafe {
        idle.write(u32::from(of::<P>(queue).is_idle()?));
        Ok(())
    })
}

unsafe extern "C" fn synchronize<P: Plugin>(queue: *mut QueueHandle) -> *mut ErrorObject {
    // SAFETY: a queue of ours.
    guard::<P>("queue.synchronize", || unsafe { of::<P>(queue) }.synchronize())
}

unsafe extern "C" fn destroy<P: Plugin>(queue: *mut QueueHandle) -> *mut ErrorObject {
    guard::<P>("queue.destroy", || {
        // SAFETY: a queue of ours, used no more.
        drop(unsafe { take_back::<P::Queue, _>(queue) });
        Ok(())
    })
}

unsafe extern "C" fn prefetch<P: Plugin>(
    queue: *mut QueueHandle,
    address: u64,
    bytes: u64,
    target: u32,
) -> *mut ErrorObject {
    // SAFETY: a queue of ours, and a range that the program vouches for.
    guard::<P>("queue.prefetch", || unsafe {
        let target = known("prefetch target", target, PrefetchTarget::from_raw)?;
        of::<P>(queue).prefetch(Span::new(address, bytes), target)
    })
}

unsafe extern "C" fn event_is_complete<P: Plugin>(
    event: *mut EventHandle,
    complete: *mut u32,
) -> *mut ErrorObject {
    // SAFETY: an event of ours and a place to write to.
    guard::<P>("event.is_complete", || unsafe {
        complete.write(u32::from(event_of::<P>(event).is_complete()?));
        Ok(())
    })
}

unsafe extern "C" fn event_synchronize<P: Plugin>(event: *mut EventHandle) -> *mut ErrorObject {
    // SAFETY: an event of ours.
    guard::<P>("event.synchronize", || unsafe { event_of::<P>(event) }.synchronize())
}

unsafe extern "C" fn event_elapsed<P: Plugin>(
    start: *mut EventHandle,
    end: *mut EventHandle,
    nanoseconds: *mut i64,
) -> *mut ErrorObject {
    // SAFETY: two events of ours and a place to write to.
    guard::<P>("event.elapsed", || unsafe {
        nanoseconds.write(event_of::<P>(start).elapsed_ns(event_of::<P>(end))?);
        Ok(())
    })
}

unsafe extern "C" fn event_destroy<P: Plugin>(event: *mut EventHandle) -> *mut ErrorObject {
    guard::<P>("event.destroy", || {
        // SAFETY: an event of ours, used no more.
        drop(unsafe { take_back::<P::Event, _>(event) });
        Ok(())
    })
}
