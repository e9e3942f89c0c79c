//! Implementation of the plugin interface for events.

use super::Complete;
use crate::driver::Driver;
use crate::event::StreamEvent;
use longshore_plugin_api::{Error, ErrorCode, Event, Result};
use std::sync::Arc;

impl<B: Complete> Event<B> for StreamEvent<B::Driver> {
    fn is_complete(&self) -> Result<bool> {
        self.device.refuse_if_lost()?;
        self.last().map_or(Ok(true), |record| record.is_reached())
    }

    fn synchronize(&self) -> Result<()> {
        self.device.refuse_if_lost()?;
        self.last().map_or(Ok(()), |record| record.synchronize())
    }

    /// Measures with the accuracy of the driver's event times: half a microsecond, or one part in
    /// 16 million, as they are 32-bit numbers.
    fn elapsed_ns(&self, end: &StreamEvent<B::Driver>) -> Result<i64> {
        for (which, event) in [("start", self), ("end", end)] {
            if !event.timing {
                let message = format!("the {which} event was made without timing");
                return Err(Error::new(ErrorCode::InvalidArgument, message));
            }
        }
        if !Arc::ptr_eq(&self.device, &end.device) {
            return Err(self.other_device_error(&end.device, "measured against one of"));
        }
        let (start, end) = (self.reached("start")?, end.reached("end")?);
        let mut milliseconds = 0f32;
        self.device.call("measuring between events", |driver| {
            // SAFETY: `milliseconds` is a local variable; both events are live and of this device.
            unsafe { driver.elapsed(&mut milliseconds, start.raw, end.raw) }
        })?;
        Ok((f64::from(milliseconds) * 1e6).round() as i64)
    }
}
