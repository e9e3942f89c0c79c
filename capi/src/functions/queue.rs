//! The functions of queues.

use crate::context::{self, current};
use crate::given;
use crate::info::{self, InfoReply};
use crate::objects::event;
use crate::objects::queue::{self, QueueObject};
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{Error, ErrorCode, Result};
use std::ffi::c_void;

pub(crate) unsafe fn create(
    device: ol_device_handle_t,
    created: *mut ol_queue_handle_t,
) -> Result<()> {
    let context = current()?;
    given::check_pointer(created)?;
    let device_object = context.device(device)?;
    let made = device_object.get()?.queue()?;
    let made = QueueObject::new(made, device, device_object.shares_memory(), context.cycle);
    // SAFETY: promised by the caller.
    unsafe { info::write(created, context::keep(&queue::ALL, made, context.cycle)?) }
}

pub(crate) unsafe fn destroy(queue: ol_queue_handle_t) -> Result<()> {
    queue::ALL.remove(queue)
}

pub(crate) unsafe fn synchronize(queue: ol_queue_handle_t) -> Result<()> {
    queue::from_handle(queue)?.synchronize()
}

pub(crate) unsafe fn query(queue: ol_queue_handle_t, is_done: *mut bool) -> Result<()> {
    let is_idle = queue::from_handle(queue)?.is_idle()?;
    if !is_done.is_null() {
        // SAFETY: promised by the caller.
        unsafe { is_done.write(is_idle) };
    }
    Ok(())
}

pub(crate) unsafe fn wait_events(
    queue: ol_queue_handle_t,
    events: *mut ol_event_handle_t,
    count: usize,
) -> Result<()> {
    let waiting = queue::from_handle(queue)?;
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
    // SAFETY: promised by the caller, for as long as the function may be called.
    let function = move || unsafe { callback(data as *mut c_void) };
    queue::from_handle(queue)?.host_function(function)
}

fn reply(handle: ol_queue_handle_t, query: ol_queue_info_t) -> Result<InfoReply> {
    let queue = queue::from_handle(handle)?;
    match query {
        OL_QUEUE_INFO_DEVICE => Ok(InfoReply::from_handle(queue.device_handle())),
        OL_QUEUE_INFO_EMPTY => queue.is_idle().map(InfoReply::Bool),
        _ => Err(info::unknown("queue", query.0)),
    }
}

info::queries!(ol_queue_handle_t, ol_queue_info_t);
