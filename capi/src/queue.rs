//! Queues.

use crate::context::{self, Context, current};
use crate::device::{self, OfDevice};
use crate::enumerations::*;
use crate::event;
use crate::given;
use crate::handle::{Held, Kind, Table};
use crate::info::{self, Answer};
use crate::structures::*;
use longshore::{Error, ErrorCode, Queue, Result};
use std::ffi::c_void;
use std::ops::Deref;

/// All queues.
pub(crate) static ALL: Table<OfQueue> = Table::new(Kind::Queue);

/// A queue.
pub(crate) struct OfQueue {
    queue: Queue,
    device: usize,
    shares_memory: bool,
    cycle: u32,
}

impl OfQueue {
    /// The handle of its device.
    #[inline]
    pub(crate) fn device_handle(&self) -> ol_device_handle_t {
        self.device as ol_device_handle_t
    }

    /// Whether its device and the program share all memory.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.shares_memory
    }

    /// In which it was made.
    pub(crate) fn cycle(&self) -> u32 {
        self.cycle
    }
}

impl Deref for OfQueue {
    type Target = Queue;

    #[inline]
    fn deref(&self) -> &Queue {
        &self.queue
    }
}

/// The queue of a handle.
///
/// # Errors
/// `InvalidQueue`.
#[inline]
pub(crate) fn of_handle(handle: ol_queue_handle_t) -> Result<Held<'static, OfQueue>> {
    ALL.get(handle)
}

/// Does something on a queue: on that of a handle, or, where the handle is null, on one of the device, and waits.
///
/// # Errors
/// `InvalidQueue`; those of `work` and of waiting.
#[inline]
pub(crate) fn on<R>(
    context: &Context,
    handle: ol_queue_handle_t,
    device: &OfDevice,
    work: impl FnOnce(&Queue) -> Result<R>,
) -> Result<R> {
    if !handle.is_null() {
        return work(&of_handle(handle)?.queue);
    }
    let queue = device.get(context)?.queue()?;
    let done = work(&queue);
    // Whatever was queued uses the caller's memory.
    queue.synchronize().and(done)
}

pub(crate) unsafe fn create(
    device: ol_device_handle_t,
    queue: *mut ol_queue_handle_t,
) -> Result<()> {
    let context = current()?;
    given::check_pointer(queue)?;
    let of_device = device::of_handle(&context, device)?;
    let made = OfQueue {
        queue: of_device.get(&context)?.queue()?,
        device: device as usize,
        shares_memory: of_device.shares_memory(),
        cycle: context.cycle,
    };
    // SAFETY: promised by the caller.
    unsafe { info::write(queue, context::keep(&ALL, made, context.cycle)?) }
}

pub(crate) unsafe fn destroy(queue: ol_queue_handle_t) -> Result<()> {
    ALL.remove(queue)
}

pub(crate) unsafe fn synchronize(queue: ol_queue_handle_t) -> Result<()> {
    of_handle(queue)?.synchronize()
}

pub(crate) unsafe fn query(queue: ol_queue_handle_t, is_done: *mut bool) -> Result<()> {
    let answer = of_handle(queue)?.is_idle()?;
    if !is_done.is_null() {
        // SAFETY: promised by the caller.
        unsafe { is_done.write(answer) };
    }
    Ok(())
}

pub(crate) unsafe fn wait_events(
    queue: ol_queue_handle_t,
    events: *mut ol_event_handle_t,
    count: usize,
) -> Result<()> {
    let waiting = of_handle(queue)?;
    // SAFETY: promised by the caller.
    for handle in unsafe { given::list(events, count) }? {
        if handle.is_null() {
            let message = "one of the events to wait for is null";
            return Err(Error::new(ErrorCode::InvalidNullHandle, message));
        }
        let event = event::ALL.get(*handle)?;
        if event.queue() != queue {
            waiting.wait_for(event.event())?;
        }
    }
    Ok(())
}

pub(crate) unsafe fn host_function(
    queue: ol_queue_handle_t,
    callback: ol_host_function_cb_t,
    data: *mut c_void,
) -> Result<()> {
    let Some(callback) = callback else {
        return Err(Error::new(ErrorCode::InvalidNullPointer, "no callback"));
    };
    let data = data as usize;
    // SAFETY: whoever queues a function vouches for it and its data.
    let function = move || unsafe { callback(data as *mut c_void) };
    of_handle(queue)?.host_function(function)
}

fn answer(handle: ol_queue_handle_t, query: ol_queue_info_t) -> Result<Answer> {
    let queue = of_handle(handle)?;
    match query {
        OL_QUEUE_INFO_DEVICE => Ok(Answer::of_handle(queue.device_handle())),
        OL_QUEUE_INFO_EMPTY => queue.is_idle().map(Answer::Bool),
        _ => Err(info::unknown("queue", query.0)),
    }
}

info::queries!(ol_queue_handle_t, ol_queue_info_t);
