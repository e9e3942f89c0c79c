//! Events.

use super::kind;
use crate::registry::handle::{Kind, Object};
use crate::registry::table::Table;
use crate::types::structures::{ol_event_impl_t, ol_queue_handle_t};
use longshore::Event;

/// All events.
pub(crate) static ALL: Table<EventObject> = Table::new();

/// An event, and the queue of its record.
pub(crate) struct EventObject {
    event: Event,
    /// Handle of the event's queue.
    queue: usize,
}

impl Object for EventObject {
    type Pointee = ol_event_impl_t;
    const KIND: Kind = kind::EVENT;
}

impl EventObject {
    /// Creates an event of the queue with this handle.
    pub(crate) fn new(event: Event, queue: ol_queue_handle_t) -> EventObject {
        EventObject { event, queue: queue as usize }
    }

    /// Returns the event itself.
    pub(crate) fn event(&self) -> &Event {
        &self.event
    }

    /// Returns the handle of the event's queue, which may be destroyed.
    pub(crate) fn queue(&self) -> ol_queue_handle_t {
        self.queue as ol_queue_handle_t
    }
}
