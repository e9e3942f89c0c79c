//! The part of an open device that all its objects share.

use crate::call::Failure;
use crate::driver::{Context, Driver};
use crate::handle::{Module, Stream};
use crate::in_flight::InFlight;
use crate::memory::Memory;
use crate::raw_device::{RawDevice, create_stream};
use crate::staging::Staging;
use longshore_plugin_api::{Error, Result, WorkerGuard, Workers};
use parking_lot::Mutex;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An open device, held by every object on it.
pub struct DeviceCore<D: Driver> {
    raw: RawDevice<D>,
    device_data: D::DeviceData,
    pub(crate) memory: Memory,
    /// The stream for copies and launches of the backend itself.
    service: Stream,
    streams: Mutex<Vec<(Stream, Staging)>>,
    /// Modules left loaded after the driver failed to unload them.
    abandoned: Mutex<Vec<Module>>,
    pub(crate) workers: Workers,
}

impl<D: Driver> DeviceCore<D> {
    /// Creates a device on which nothing is queued. `service` is a stream for copies and launches
    /// of the backend itself.
    pub(crate) fn new(
        raw: RawDevice<D>,
        device_data: D::DeviceData,
        memory: Memory,
        service: Stream,
    ) -> DeviceCore<D> {
        DeviceCore {
            raw,
            device_data,
            memory,
            service,
            streams: Mutex::default(),
            abandoned: Mutex::default(),
            workers: Workers::default(),
        }
    }

    /// Returns the backend's own data of the device.
    pub fn device_data(&self) -> &D::DeviceData {
        &self.device_data
    }

    /// Returns the stream for copies and launches of the backend itself.
    pub fn service(&self) -> Stream {
        self.service
    }

    /// Returns the error of a call that involves another device too. That device is the lost one,
    /// if this device still answers.
    #[cold]
    pub fn failed_with(
        &self,
        other: &DeviceCore<D>,
        doing: impl fmt::Display,
        failure: Failure,
    ) -> Error {
        let is_sticky = |failure: &Failure| failure.result.is_some_and(D::is_sticky);
        let answers = || {
            let asked = self.try_call(|driver| {
                // SAFETY: the stream is live.
                unsafe { driver.query_stream(self.service) }
            });
            !asked.is_err_and(|failure| is_sticky(&failure))
        };
        match is_sticky(&failure) && answers() {
            true => other.failed(doing, failure),
            false => self.failed(doing, failure),
        }
    }

    /// Returns a stream on which nothing is queued, and its staging memory. The caller returns both
    /// with [`DeviceCore::give_stream`].
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn take_stream(&self) -> Result<(Stream, Staging)> {
        let _current = self.enter()?;
        let mut streams = self.streams.lock();
        let idle = |(stream, _): &(Stream, Staging)| {
            // SAFETY: the stream is live.
            unsafe { self.driver().query_stream(*stream) }.is_ok()
        };
        if let Some(at) = streams.iter().position(idle) {
            return Ok(streams.swap_remove(at));
        }
        drop(streams);
        let made = create_stream(self.driver());
        let made = made.map_err(|failure| self.failed("making a queue", failure));
        made.map(|stream| (stream, Staging::default()))
    }

    /// Takes back the stream of a dropped queue. The stream's work may go on.
    pub(crate) fn give_stream(&self, stream: Stream, staging: Staging) {
        self.streams.lock().push((stream, staging));
    }

    /// Keeps a module that the driver did not unload, to try again when the device closes.
    pub(crate) fn abandon(&self, module: Module) {
        self.abandoned.lock().push(module);
    }

    /// Counts the calling thread among the device's workers, until the returned guard is dropped.
    pub(crate) fn worker_guard(&self) -> WorkerGuard {
        self.workers.add()
    }

    /// Returns the list of a new queue's last launches, which errors name when the device is lost.
    pub(crate) fn register(&self) -> Arc<InFlight> {
        self.registry().add()
    }

    /// Returns the list for launches on the service stream, as [`DeviceCore::register`] does for a
    /// queue.
    pub(crate) fn register_service(&self) -> Arc<InFlight> {
        self.registry().add_service()
    }

    /// Returns the streams that no queue uses.
    pub(crate) fn idle_streams(&self) -> Vec<Stream> {
        self.streams.lock().iter().map(|(stream, _)| *stream).collect()
    }

    /// Notifies the backend that a wait for some of the device's work has ended.
    #[inline(always)]
    pub(crate) fn was_waited_for(&self) {
        D::was_waited_for(&self.device_data, || self.is_known_idle());
    }

    /// Destroys all objects of the driver. The context is current.
    fn destroy(&self) {
        let driver = self.driver();
        driver.is_closing(&self.device_data);
        self.memory.destroy(driver);
        for module in self.abandoned.lock().drain(..) {
            // SAFETY: the module is still loaded, and nothing else holds it.
            let _ = unsafe { driver.unload(module) };
        }
        let service = (self.service, Staging::default());
        for (stream, staging) in self.streams.lock().drain(..).chain([service]) {
            // SAFETY: all queues are dropped, so nothing uses the stream; queued work goes on.
            let _ = unsafe { driver.destroy_stream(stream) };
            staging.destroy(driver);
        }
        self.destroy_events();
    }
}

impl<D: Driver> Deref for DeviceCore<D> {
    type Target = RawDevice<D>;

    #[inline]
    fn deref(&self) -> &RawDevice<D> {
        &self.raw
    }
}

impl<D: Driver> Drop for DeviceCore<D> {
    fn drop(&mut self) {
        // Without the context no object can be destroyed.
        if let Ok(_current) = self.context().enter().or_else(|_| self.context().force()) {
            self.destroy();
        }
        self.memory.destroy_pool(self.driver());
    }
}
