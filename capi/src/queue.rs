//! Queues.

use crate::context::{Context, current};
use crate::device::{self, OfDevice};
use crate::enumerations::*;
use crate::given;
use crate::info::{self, Answer};
use crate::structures::*;
use longshore::{Error, ErrorCode, Queue, Result};
use std::ffi::c_void;

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
        return work(&*context.queues.get(handle)?);
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
    let made = device::of_handle(&context, device)?.get(&context)?.queue()?;
    // SAFETY: promised by the caller.
    unsafe { info::write(queue, context.queues.insert(made)?) }
}

pub(crate) unsafe fn destroy(queue: ol_queue_handle_t) -> Result<()> {
    current()?.queues.remove(queue)
}

pub(crate) unsafe fn synchronize(queue: ol_queue_handle_t) -> Result<()> {
    current()?.queues.get(queue)?.synchronize()
}

pub(crate) unsafe fn query(queue: ol_queue_handle_t, is_done: *mut bool) -> Result<()> {
    let answer = current()?.queues.get(queue)?.is_idle()?;
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
    let context = current()?;
    let waiting = context.queues.get(queue)?;
    // SAFETY: promised by the caller.
    for handle in unsafe { given::list(events, count) }? {
        if handle.is_null() {
            let message = "one of the events to wait for is null";
            return Err(Error::new(ErrorCode::InvalidNullHandle, message));
        }
        let event = context.events.get(*handle)?;
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
    current()?.queues.get(queue)?.host_function(function)
}

fn answer(handle: ol_queue_handle_t, query: ol_queue_info_t) -> Result<Answer> {
    let context = current()?;
    let queue = context.queues.get(handle)?;
    match query {
        OL_QUEUE_INFO_DEVICE => {
            device::handle_of(&context, queue.device().id()).map(Answer::of_handle)
        }
        OL_QUEUE_INFO_EMPTY => queue.is_idle().map(Answer::Bool),
        _ => Err(info::unknown("queue", query.0)),
    }
}

info::queries!(ol_queue_handle_t, ol_queue_info_t);
