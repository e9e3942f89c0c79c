//! Places in queues: what events are recorded at, and queues wait for.

use crate::timeline::Timeline;
use longshore_plugin_api::{Error, Result};
use std::sync::Arc;

/// A value of a queue's timeline. Several events have the same value if no work lies between them.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) value: u64,
    /// How often failures had been told of when it was taken.
    reports: u64,
}

impl Place {
    /// Returns the place of a value, behind all that the queue has told of by now.
    pub(crate) fn new(timeline: &Arc<Timeline>, value: u64) -> Place {
        Place { timeline: Arc::clone(timeline), value, reports: timeline.reports() }
    }

    /// # Errors
    /// A lost device.
    pub(crate) fn is_reached(&self) -> Result<bool> {
        self.timeline.is_reached(self.value)
    }

    /// Blocks until it is reached.
    ///
    /// # Errors
    /// The failure that it is behind; a lost device.
    pub(crate) fn wait(&self) -> Result<()> {
        self.timeline.wait(self.value)?;
        self.failure().map_or(Ok(()), Err)
    }

    /// Returns the first failure of the work in front of it that nobody had been told of when it was reached, as far as is
    /// known by now.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.timeline.failure_before(self.value, self.reports)
    }
}
