//! Events of another process.

use std::sync::Arc;

use longshore_plugin_api::{Error, ErrorCode, Result};

use super::link::Link;
use crate::plugin::interface::messages::EventCall;
use crate::plugin::protocol::{Id, Request};

/// An event of a queue in another process.
pub struct IsolatedEvent {
    link: Arc<Link>,
    id: Id,
}

impl IsolatedEvent {
    pub(in crate::plugin) fn new(link: Arc<Link>, id: Id) -> Self {
        Self { link, id }
    }

    pub(in crate::plugin) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(in crate::plugin) fn request<'a>(&self, call: EventCall<'a>) -> Request<'a> {
        Request::Event(self.id, call)
    }

    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Returns the event's number, for a queue of the same process.
    ///
    /// # Errors
    /// `InvalidEvent` for an event of another process.
    pub(in crate::plugin) fn id_for(&self, link: &Arc<Link>) -> Result<Id> {
        if Arc::ptr_eq(&self.link, link) {
            return Ok(self.id);
        }
        let problem = "the event belongs to a device of another process";
        Err(Error::new(ErrorCode::InvalidEvent, problem))
    }
}

impl Drop for IsolatedEvent {
    fn drop(&mut self) {
        if self.link.is_here() && self.link.is_alive() {
            // If the message cannot be sent, the process is gone, and the event with it.
            let _ = self.link.post(&self.request(EventCall::Destroy {}));
        }
    }
}
