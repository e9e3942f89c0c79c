//! The lowest layer of an open device: calls of its driver, errors of these calls, and the loss of
//! the device.

use crate::call::{Call, Code, Failure};
use crate::driver::{Context, Driver, EventKind};
use crate::error;
use crate::facts::Facts;
use crate::handle::{Event, Stream};
use crate::in_flight::Registry;
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A device of the driver, its context, and the error by which the device was lost.
pub struct RawDevice<D: Driver> {
    driver: Arc<D>,
    facts: Arc<Facts>,
    ordinal: i32,
    context: D::Context,
    registry: Registry,
    /// Idle events of the driver, by their kinds.
    events: [Mutex<Vec<Event>>; 3],
    lost: OnceLock<Error>,
}

impl<D: Driver> RawDevice<D> {
    /// Creates the device of this ordinal with its context.
    pub(crate) fn new(
        driver: &Arc<D>,
        facts: &Arc<Facts>,
        ordinal: i32,
        context: D::Context,
    ) -> RawDevice<D> {
        RawDevice {
            driver: Arc::clone(driver),
            facts: Arc::clone(facts),
            ordinal,
            context,
            registry: Registry::default(),
            events: Default::default(),
            lost: OnceLock::new(),
        }
    }

    /// Returns the driver.
    #[inline]
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Returns the constant properties of the device.
    #[inline]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the driver's number of the device.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Returns the context of the device.
    pub fn context(&self) -> &D::Context {
        &self.context
    }

    /// Returns whether all kernels that were launched on the device are known to be done.
    pub fn is_known_idle(&self) -> bool {
        self.registry.is_idle()
    }

    /// Returns the list of the kernels and of their launches.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Makes the device's context current until the returned guard is dropped.
    ///
    /// # Errors
    /// The error by which the device was lost; errors of the driver.
    #[inline]
    pub fn enter(&self) -> Result<<D::Context as Context>::CurrentGuard<'_>> {
        self.refuse_if_lost()?;
        self.context.enter().map_err(|failure| self.not_entered(failure))
    }

    #[cold]
    fn not_entered(&self, failure: Failure) -> Error {
        self.failed("entering the context", failure)
    }

    /// Calls the driver with the device's context current. `doing` is the purpose of the call.
    ///
    /// # Errors
    /// The error by which the device was lost; errors of the driver.
    pub fn call(&self, doing: impl fmt::Display, call: impl FnOnce(&D) -> Call) -> Result<()> {
        self.refuse_if_lost()?;
        self.check(doing, self.try_call(call))
    }

    /// Calls the driver to destroy an object. A driver that is already deinitialized, as at the end
    /// of the process, counts as success.
    ///
    /// # Errors
    /// As for [`RawDevice::call`].
    pub fn end(&self, doing: impl fmt::Display, call: impl FnOnce(&D) -> Call) -> Result<()> {
        self.refuse_if_lost()?;
        match self.try_call(call) {
            Err(failure) if failure.is(Code::DEINITIALIZED) => Ok(()),
            ended => self.check(doing, ended),
        }
    }

    /// Calls the driver as [`RawDevice::call`] does, but returns its failure unchanged, and calls
    /// it for a lost device too.
    pub fn try_call(&self, call: impl FnOnce(&D) -> Call) -> Call {
        let _current = self.context.enter()?;
        call(self.driver())
    }

    /// Converts a result of the driver to a [`Result`], and keeps the error by which the device is
    /// lost.
    ///
    /// # Errors
    /// The driver's; `doing` is the purpose of the call.
    #[inline]
    pub fn check(&self, doing: impl fmt::Display, call: Call) -> Result<()> {
        call.map_err(|failure| self.failed(doing, failure))
    }

    /// Returns an error if the device is lost.
    ///
    /// # Errors
    /// The error by which the device was lost.
    #[inline]
    pub fn refuse_if_lost(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(error) => Err(again(error)),
        }
    }

    /// Returns the error of a call that failed. After a sticky failure the device is lost.
    #[cold]
    pub fn failed(&self, doing: impl fmt::Display, failure: Failure) -> Error {
        let doing = format!("{} device '{}': {doing}", D::NAME, self.facts.name);
        let error = error::driver_error(self.driver(), &doing, failure);
        // A deinitialized driver gives this result to every call, for every device.
        let has_ended = failure.is(Code::DEINITIALIZED);
        if has_ended || !failure.result.is_some_and(|result| self.driver().is_lost(result)) {
            return error;
        }
        let loss = self.lost.get_or_init(|| {
            let loss = self.loss(&error);
            log::error!("{loss}");
            loss
        });
        loss.clone()
    }

    /// Returns the error for all later calls. The driver does not report which kernel failed, so
    /// the error names all candidates.
    fn loss(&self, error: &Error) -> Error {
        let running = match self.registry.in_flight() {
            kernels if kernels.is_empty() => "no kernel was in flight".to_owned(),
            kernels => format!("in flight were {kernels}"),
        };
        let loss = Error::new(
            ErrorCode::BackendFailure,
            format!(
                "{}; {running}; the device is lost, nothing works on it any more: close it",
                error.message()
            ),
        );
        match error.vendor() {
            Some(vendor) => loss.with_vendor(vendor.name.clone(), vendor.number),
            None => loss,
        }
    }

    /// Returns an idle event, for the caller to return with [`RawDevice::give_event`]. The device's
    /// context is current.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn take_event(&self, kind: EventKind) -> Result<Event> {
        self.try_take_event(kind).map_err(|failure| self.failed("making an event", failure))
    }

    /// Takes an event as [`RawDevice::take_event`] does, but returns the failure unchanged.
    pub(crate) fn try_take_event(&self, kind: EventKind) -> std::result::Result<Event, Failure> {
        if let Some(event) = self.events[kind as usize].lock().pop() {
            return Ok(event);
        }
        let mut event = Event::NULL;
        // SAFETY: the context is current.
        unsafe { self.driver().create_event(&mut event, kind) }?;
        Ok(event)
    }

    /// Takes back an event that is no longer in use.
    pub(crate) fn give_event(&self, event: Event, kind: EventKind) {
        self.events[kind as usize].lock().push(event);
    }

    /// Destroys the idle events. The context is current.
    pub(crate) fn destroy_events(&self) {
        for event in self.events.iter().flat_map(|events| std::mem::take(&mut *events.lock())) {
            // SAFETY: no call and no stream uses an idle event.
            let _ = unsafe { self.driver().destroy_event(event) };
        }
    }
}

/// Returns the error by which a device was lost, once more.
#[cold]
fn again(error: &Error) -> Error {
    error.clone()
}

/// Creates a stream. The context is current.
pub(crate) fn create_stream<D: Driver>(driver: &D) -> std::result::Result<Stream, Failure> {
    let mut stream = Stream::NULL;
    // SAFETY: the context is current.
    unsafe { driver.create_stream(&mut stream) }?;
    Ok(stream)
}
