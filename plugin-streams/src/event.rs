//! Events: places in queues.

use crate::device_core::DeviceCore;
use crate::driver::Driver;
use crate::line::Line;
use crate::record::Record;
use crate::step::Step;
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// An event: the last place of a queue that it was recorded at. Independent of that queue's life.
///
/// A host function that synchronizes an event recorded behind it on its own queue waits for itself:
/// the host refuses that.
///
/// LLVM: `ol_event_handle_t`.
pub struct StreamEvent<D: Driver> {
    pub(crate) device: Arc<DeviceCore<D>>,
    pub(crate) timing: bool,
    last: Mutex<Option<Arc<Record<D>>>>,
}

impl<D: Driver> StreamEvent<D> {
    /// Returns an event that was recorded nowhere.
    pub(crate) fn new(device: &Arc<DeviceCore<D>>, timing: bool) -> StreamEvent<D> {
        StreamEvent { device: Arc::clone(device), timing, last: Mutex::new(None) }
    }

    /// Returns the last record, unless there is none.
    pub(crate) fn last(&self) -> Option<Arc<Record<D>>> {
        self.last.lock().clone()
    }

    /// Records it at the tail of a line.
    ///
    /// # Errors
    /// `InvalidDevice` if the line is of another device; a lost device; those of the driver.
    pub(crate) fn record_at(&self, line: &Arc<Line<D>>) -> Result<()> {
        if !Arc::ptr_eq(&self.device, line.device()) {
            return Err(self.of_another(line.device(), "recorded on a queue of"));
        }
        let mut last = self.last.lock();
        if let Some(keeping) = line.keeping() {
            let record = Record::new(&self.device, self.timing)?;
            keeping.push(Step::Record(Arc::clone(&record)));
            *last = Some(record);
            return Ok(());
        }
        // A record that some call or line still waits for must keep its meaning.
        let unused =
            last.as_ref().filter(|record| Arc::strong_count(record) == 1 && record.is_submitted());
        let record = match unused {
            Some(record) => Arc::clone(record),
            None => Record::new(&self.device, self.timing)?,
        };
        record.submit(line)?;
        *last = Some(record);
        Ok(())
    }

    /// Returns the last record, which was reached. `which` names the event in errors.
    ///
    /// # Errors
    /// `InvalidEvent` if it was not; a lost device; those of the driver.
    pub(crate) fn reached(&self, which: &str) -> Result<Arc<Record<D>>> {
        let record = self.last().ok_or_else(|| not_ready(which, "never recorded"))?;
        match record.is_reached()? {
            true => Ok(record),
            false => Err(not_ready(which, "not complete")),
        }
    }

    /// Returns the error for an event that another device is asked about.
    #[cold]
    pub(crate) fn of_another(&self, other: &DeviceCore<D>, how: &str) -> Error {
        let (ours, theirs) = (&self.device.facts().name, &other.facts().name);
        let message = format!(
            "an event of '{ours}' {how} '{theirs}', which is opened apart; expected the same device"
        );
        Error::new(ErrorCode::InvalidDevice, message)
    }
}

#[cold]
fn not_ready(which: &str, state: &str) -> Error {
    let message = format!("the {which} event is {state}; expected one that was reached");
    Error::new(ErrorCode::InvalidEvent, message)
}
