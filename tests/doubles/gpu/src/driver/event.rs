//! Events.

use super::context::{Context, current, current_or_failed};
use super::object::{self, Object};
use super::{Code, DriverResult, Out, broken, driver, stream};
use crate::Ticket;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// An event, and its last record.
pub struct Event {
    pub(crate) handle: usize,
    context: usize,
    device: usize,
    has_time: bool,
    record: Mutex<Option<Record>>,
}

#[derive(Clone)]
struct Record {
    ticket: Ticket,
    time: Arc<OnceLock<Instant>>,
}

impl Object for Event {
    const KIND: &'static str = "event";

    fn context_handle(&self) -> usize {
        self.context
    }
}

/// Returns the ticket of the event's last record, if it is not yet reached.
fn pending(event: &Event) -> Option<Ticket> {
    let record = event.record.lock();
    record.as_ref().map(|record| record.ticket.clone()).filter(|ticket| !ticket.is_done())
}

/// Creates an event in the current context. Valid are the flags common to all drivers, and at most
/// one of the vendor's own flags, `own`.
pub fn create(event: Out<usize>, flags: u32, own: u32) -> DriverResult {
    let context = current()?;
    let known = BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS | own;
    let is_known = flags & !known == 0 && (flags & own).count_ones() <= 1;
    if !is_known || flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
        return Err(broken(Code::INVALID_VALUE, format!("invalid flags of an event: {flags:#x}")));
    }
    if event.is_null() {
        return event.put(0);
    }
    let made = object::add(|handle| Event {
        handle,
        context: context.handle,
        device: context.device,
        has_time: flags & DISABLE_TIMING == 0,
        record: Mutex::default(),
    });
    event.put(made.handle)
}

/// Destroys an event.
pub fn destroy(event: usize) -> DriverResult {
    let context = current_or_failed()?;
    object::remove::<Event>(event)?;
    context.check()
}

/// Records an event in a stream.
pub fn record(event: usize, stream: usize) -> DriverResult {
    let (context, stream) = stream::for_work(stream)?;
    let event = object::get::<Event>(event)?;
    if event.context != context.handle {
        let scope = driver().vendor.scope();
        let what = format!("an event is recorded in a stream of another {scope}");
        return Err(broken(Code::INVALID_HANDLE, what));
    }
    let time = Arc::<OnceLock<Instant>>::default();
    let reached = Arc::clone(&time);
    let mut record = event.record.lock();
    let ticket = stream.push(move |_| {
        let _ = reached.set(Instant::now());
    })?;
    *record = Some(Record { ticket, time });
    Ok(())
}

/// Makes a stream wait until an event is reached.
pub fn wait_in_stream(stream: usize, event: usize, flags: u32) -> DriverResult {
    let (_, stream) = stream::any_stream(stream)?;
    let event = object::get::<Event>(event)?;
    if flags > 1 {
        return Err(broken(Code::INVALID_VALUE, format!("invalid flags of a wait: {flags:#x}")));
    }
    if let Some(ticket) = pending(&event) {
        stream.push(move |_| ticket.wait())?;
    }
    Ok(())
}

/// Succeeds if the event is reached.
pub fn query(event: usize) -> DriverResult {
    current()?;
    let event = object::get::<Event>(event)?;
    if pending(&event).is_some() { Err(Code::NOT_READY) } else { check_context(&event) }
}

/// Waits until the event is reached.
pub fn synchronize(event: usize) -> DriverResult {
    current()?;
    let event = object::get::<Event>(event)?;
    if let Some(ticket) = pending(&event) {
        ticket.wait();
    }
    check_context(&event)
}

/// Stores the time between two events, with the documented resolution of half a microsecond.
pub fn elapsed(milliseconds: Out<f32>, start: usize, end: usize) -> DriverResult {
    current()?;
    let (start, end) = (object::get::<Event>(start)?, object::get::<Event>(end)?);
    check_context(&start)?;
    check_context(&end)?;
    if start.device != end.device || !start.has_time || !end.has_time {
        return Err(Code::INVALID_HANDLE);
    }
    // Locked in turn, as both events may be the same.
    let start = start.record.lock().clone();
    let end = end.record.lock().clone();
    let (Some(start), Some(end)) = (start, end) else { return Err(Code::INVALID_HANDLE) };
    let (Some(start), Some(end)) = (start.time.get(), end.time.get()) else {
        return Err(Code::NOT_READY);
    };
    let seconds = match end.checked_duration_since(*start) {
        Some(after) => after.as_secs_f64(),
        None => -start.duration_since(*end).as_secs_f64(),
    };
    milliseconds.put(((seconds * 2e6).round() / 2e3) as f32)
}

/// Returns the failure of the event's own context.
fn check_context(event: &Event) -> DriverResult {
    match object::get::<Context>(event.context) {
        Ok(context) => context.check(),
        Err(_) => Err(Code::CONTEXT_IS_DESTROYED),
    }
}
