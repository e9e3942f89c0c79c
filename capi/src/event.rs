//! Events.

use crate::context;
use crate::enumerations::*;
use crate::given;
use crate::handle::{Kind, Table};
use crate::info::{self, Answer};
use crate::queue;
use crate::structures::*;
use longshore::{Error, ErrorCode, Event, Result};

/// All events.
pub(crate) static ALL: Table<OfEvent> = Table::new(Kind::Event);

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
    given::check_pointer(event)?;
    let of_queue = queue::of_handle(queue)?;
    let recorded = match flags {
        OL_EVENT_FLAGS_NONE => of_queue.record()?,
        OL_EVENT_FLAGS_ENABLE_PROFILING => of_queue.record_timed()?,
        ol_event_flags_t(unknown) => {
            let message = format!("{unknown:#x} is no set of flags of events");
            return Err(Error::new(ErrorCode::InvalidEnumeration, message));
        }
    };
    let made = OfEvent { event: recorded, queue: queue as usize };
    let made = context::keep(&ALL, made, of_queue.cycle())?;
    // SAFETY: promised by the caller.
    unsafe { info::write(event, made) }
}

pub(crate) unsafe fn destroy(event: ol_event_handle_t) -> Result<()> {
    ALL.remove(event)
}

pub(crate) unsafe fn synchronize(event: ol_event_handle_t) -> Result<()> {
    ALL.get(event)?.event.synchronize()
}

pub(crate) unsafe fn elapsed(
    start: ol_event_handle_t,
    end: ol_event_handle_t,
    milliseconds: *mut f32,
) -> Result<()> {
    let (start, end) = (ALL.get(start)?, ALL.get(end)?);
    let nanoseconds = start.event.elapsed_ns(&end.event)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(milliseconds, (nanoseconds as f64 / 1e6) as f32) }
}

fn answer(handle: ol_event_handle_t, query: ol_event_info_t) -> Result<Answer> {
    let event = ALL.get(handle)?;
    match query {
        OL_EVENT_INFO_QUEUE => Ok(Answer::of_handle(event.queue())),
        OL_EVENT_INFO_IS_COMPLETE => event.event.is_complete().map(Answer::Bool),
        _ => Err(info::unknown("event", query.0)),
    }
}

info::queries!(ol_event_handle_t, ol_event_info_t);
