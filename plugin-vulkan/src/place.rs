//! Places in queues, which events record and queues wait for.

use crate::timeline::Timeline;
use longshore_plugin_api::{Error, Result};
use std::sync::Arc;

/// A value of a queue's timeline. Several events share a value if no work lies between them.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) value: u64,
    /// Number of reports of failures before the place was created.
    reports: u64,
}

impl Place {
    /// Creates the place of a value, after all failures that the queue has reported so far.
    pub(crate) fn new(timeline: &Arc<Timeline>, value: u64) -> Place {
        Place { timeline: Arc::clone(timeline), value, reports: timeline.reports() }
    }

    /// # Errors
    /// A lost device.
    pub(crate) fn is_reached(&self) -> Result<bool> {
        self.timeline.is_reached(self.value)
    }

    /// Blocks until the place is reached.
    ///
    /// # Errors
    /// A failure of the work before the place; a lost device.
    pub(crate) fn wait(&self) -> Result<()> {
        self.timeline.wait(self.value)?;
        self.failure().map_or(Ok(()), Err)
    }

    /// Returns the first known failure of the work before the place that was still pending when the
    /// place was reached.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.timeline.failure_before(self.value, self.reports)
    }
}
