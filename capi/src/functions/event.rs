//! The functions of events.

use crate::context;
use crate::given;
use crate::info::{self, InfoReply};
use crate::objects::event::{self, EventObject};
use crate::objects::queue;
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{Error, ErrorCode, Result};

pub(crate) unsafe fn create(
    queue: ol_queue_handle_t,
    flags: ol_event_flags_t,
    created: *mut ol_event_handle_t,
) -> Result<()> {
    given::check_pointer(created)?;
    let queue_object = queue::from_handle(queue)?;
    let recorded = match flags {
        OL_EVENT_FLAGS_NONE => queue_object.record()?,
        OL_EVENT_FLAGS_ENABLE_PROFILING => queue_object.record_timed()?,
        ol_event_flags_t(unknown) => {
            let message = format!("{unknown:#x} is not an ol_event_flags_t");
            return Err(Error::new(ErrorCode::InvalidEnumeration, message));
        }
    };
    let made = EventObject::new(recorded, queue);
    let made = context::keep(&event::ALL, made, queue_object.cycle())?;
    // SAFETY: promised by the caller.
    unsafe { info::write(created, made) }
}

pub(crate) unsafe fn destroy(event: ol_event_handle_t) -> Result<()> {
    event::ALL.remove(event)
}

pub(crate) unsafe fn synchronize(event: ol_event_handle_t) -> Result<()> {
    event::ALL.get(event)?.event().synchronize()
}

pub(crate) unsafe fn elapsed(
    start: ol_event_handle_t,
    end: ol_event_handle_t,
    milliseconds: *mut f32,
) -> Result<()> {
    let (start, end) = (event::ALL.get(start)?, event::ALL.get(end)?);
    let nanoseconds = start.event().elapsed_ns(end.event())?;
    // SAFETY: promised by the caller.
    unsafe { info::write(milliseconds, (nanoseconds as f64 / 1e6) as f32) }
}

fn reply(handle: ol_event_handle_t, query: ol_event_info_t) -> Result<InfoReply> {
    let event = event::ALL.get(handle)?;
    match query {
        OL_EVENT_INFO_QUEUE => Ok(InfoReply::from_handle(event.queue())),
        OL_EVENT_INFO_IS_COMPLETE => event.event().is_complete().map(InfoReply::Bool),
        _ => Err(info::unknown("event", query.0)),
    }
}

info::queries!(ol_event_handle_t, ol_event_info_t);
