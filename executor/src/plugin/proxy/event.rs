//! Events of another process.

use std::sync::Arc;

use longshore_plugin_api::{Error, ErrorCode, Event, Result};

use super::Isolated;
use super::link::Link;
use crate::plugin::protocol::{Id, Request};

/// An event.
pub struct IsolatedEvent {
    link: Arc<Link>,
    id: Id,
}

impl IsolatedEvent {
    pub(super) fn new(link: Arc<Link>, id: Id) -> Self {
        Self { link, id }
    }

    /// Its number, for a queue of the same process.
    ///
    /// # Errors
    /// `InvalidEvent` for another's.
    pub(super) fn id_for(&self, link: &Arc<Link>) -> Result<Id> {
        if Arc::ptr_eq(&self.link, link) {
            return Ok(self.id);
        }
        let problem = "the event belongs to a device of another process";
        Err(Error::new(ErrorCode::InvalidEvent, problem))
    }
}

impl Event<Isolated> for IsolatedEvent {
    fn is_complete(&self) -> Result<bool> {
        self.link.ask(&Request::IsComplete { event: self.id })
    }

    fn synchronize(&self) -> Result<()> {
        self.link.ask_and_settle(&Request::SynchronizeEvent { event: self.id })
    }

    fn elapsed_ns(&self, end: &Self) -> Result<i64> {
        let end = end.id_for(&self.link)?;
        self.link.ask(&Request::Elapsed { start: self.id, end })
    }
}

impl Drop for IsolatedEvent {
    fn drop(&mut self) {
        if self.link.is_here() && self.link.is_alive() {
            // If it cannot be sent the process is gone, and the event with it.
            let _ = self.link.post(&Request::DestroyEvent { event: self.id });
        }
    }
}
