//! Events.

use crate::context::current;
use crate::enumerations::*;
use crate::given;
use crate::info::{self, Answer};
use crate::structures::*;
use longshore::{Error, ErrorCode, Event, Result};

/// An event, and on which queue it was made.
pub(crate) struct OfEvent {
    event: Event,
    queue: usize,
}

impl OfEvent {
    pub(crate) fn event(&self) -> &Event {
        &self.event
    }

    /// The handle of its queue, which may be destroyed.
    pub(crate) fn queue(&self) -> ol_queue_handle_t {
        self.queue as ol_queue_handle_t
    }
}

pub(crate) unsafe fn create(
    queue: ol_queue_handle_t,
    flags: ol_event_flags_t,
    event: *mut ol_event_handle_t,
) -> Result<()> {
    let context = current()?;
    given::check_pointer(event)?;
    let recorded = {
        let queue = context.queues.get(queue)?;
        match flags {
            OL_EVENT_FLAGS_NONE => queue.record()?,
            OL_EVENT_FLAGS_ENABLE_PROFILING => queue.record_timed()?,
            ol_event_flags_t(unknown) => {
                let message = format!("{unknown:#x} is no set of flags of events");
                return Err(Error::new(ErrorCode::InvalidEnumeration, message));
            }
        }
    };
    let made = context.events.insert(OfEvent { event: recorded, queue: queue as usize })?;
    // SAFETY: promised by the caller.
    unsafe { info::write(event, made) }
}

pub(crate) unsafe fn destroy(event: ol_event_handle_t) -> Result<()> {
    current()?.events.remove(event)
}

pub(crate) unsafe fn synchronize(event: ol_event_handle_t) -> Result<()> {
    current()?.events.get(event)?.event.synchronize()
}

pub(crate) unsafe fn elapsed(
    start: ol_event_handle_t,
    end: ol_event_handle_t,
    milliseconds: *mut f32,
) -> Result<()> {
    let context = current()?;
    let (start, end) = (context.events.get(start)?, context.events.get(end)?);
    let nanoseconds = start.event.elapsed_ns(&end.event)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(milliseconds, (nanoseconds as f64 / 1e6) as f32) }
}

fn answer(handle: ol_event_handle_t, query: ol_event_info_t) -> Result<Answer> {
    let context = current()?;
    let event = context.events.get(handle)?;
    match query {
        OL_EVENT_INFO_QUEUE => Ok(Answer::of_handle(event.queue())),
        OL_EVENT_INFO_IS_COMPLETE => event.event.is_complete().map(Answer::Bool),
        _ => Err(info::unknown("event", query.0)),
    }
}

info::queries!(ol_event_handle_t, ol_event_info_t);
