//! An open device.

use crate::backend::{Physical, StreamBackend};
use crate::call::{Call, Code, Failure};
use crate::driver::{Context, Driver, EventKind};
use crate::facts::Facts;
use crate::handle::{Event, Module, Stream};
use crate::in_flight::{InFlight, Registry};
use crate::memory::Memory;
use crate::staging::Staging;
use crate::{StreamEvent, StreamKernel, StreamModule, StreamQueue, error};
use longshore_plugin_api::{
    Acceptance, AtWork, Device, Error, ErrorCode, ImageBytes, ImageEntry, Loading, MemoryKind,
    Result, Span, Workers,
};
use parking_lot::Mutex;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// A GPU: its context, retained once for each time that it is opened.
///
/// LLVM: `ol_device_handle_t`, `CUDADeviceTy`, `AMDGPUDeviceTy`.
pub struct StreamDevice<B: StreamBackend> {
    core: Arc<DeviceCore<B::Driver>>,
    backend: PhantomData<fn() -> B>,
}

/// What all that is on a device shares. Whatever was made from it holds it.
pub struct DeviceCore<D: Driver> {
    driver: Arc<D>,
    facts: Arc<Facts>,
    ordinal: i32,
    context: D::Context,
    own: D::Own,
    pub(crate) memory: Memory,
    /// For what the backend itself copies and launches.
    service: Stream,
    registry: Registry,
    streams: Mutex<Vec<(Stream, Staging)>>,
    /// By their kinds.
    events: [Mutex<Vec<Event>>; 3],
    /// Modules that the driver did not unload when it should.
    abandoned: Mutex<Vec<Module>>,
    lost: OnceLock<Error>,
    workers: Workers,
}

impl<B: StreamBackend> StreamDevice<B> {
    /// Retains the context. Blocks.
    ///
    /// # Errors
    /// Those of the driver; `Unsupported` for a setting that it does not take.
    pub(crate) fn open(
        driver: &Arc<B::Driver>,
        physical: &Arc<B::Physical>,
        settings: &B::Settings,
    ) -> Result<StreamDevice<B>> {
        let facts = physical.facts();
        let doing = format!("opening {} device '{}'", <B::Driver as Driver>::NAME, facts.name);
        let failed = |failure| error::of_driver(&**driver, &doing, failure);
        let context = B::retain(driver, physical)?;
        let entered = context.enter().map_err(failed)?;
        let own = B::prepare(driver, physical, settings)?;
        let service = create_stream(&**driver).map_err(failed)?;
        let memory = Memory::new(&**driver, facts, physical.ordinal())
            .map_err(failed)
            .inspect_err(|_| {
                // SAFETY: nothing was queued on it.
                let _ = unsafe { driver.destroy_stream(service) };
            })?;
        drop(entered);
        let core = DeviceCore {
            driver: Arc::clone(driver),
            facts: Arc::clone(facts),
            ordinal: physical.ordinal(),
            context,
            own,
            memory,
            service,
            registry: Registry::default(),
            streams: Mutex::default(),
            events: Default::default(),
            abandoned: Mutex::default(),
            lost: OnceLock::new(),
            workers: Workers::default(),
        };
        Ok(StreamDevice { core: Arc::new(core), backend: PhantomData })
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore<B::Driver>> {
        &self.core
    }
}

impl<B: StreamBackend> Device<B> for StreamDevice<B> {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(match B::suitability(image, &self.core) {
            Ok(_) => Acceptance::Accepted,
            Err(why) => Acceptance::Refused(why),
        })
    }

    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        self.core.memory.allocate(&self.core, kind, bytes, alignment)
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        self.core.memory.free(&self.core, kind, address)
    }

    fn load(&self, image: ImageBytes, _: Loading) -> Result<StreamModule<B>> {
        StreamModule::load(&self.core, image)
    }

    fn create_queue(&self) -> Result<StreamQueue<B>> {
        StreamQueue::new(&self.core)
    }

    fn create_event(&self, timing: bool) -> Result<StreamEvent<B::Driver>> {
        self.core.refuse_if_lost()?;
        Ok(StreamEvent::new(&self.core, timing))
    }

    /// Waits for what queues that were given up still do, then releases the context.
    fn close(self) -> Result<()> {
        let core = self.core;
        core.workers.await_none();
        // Not for the context: others of the process may use it.
        let streams: Vec<_> = core.streams.lock().iter().map(|(stream, _)| *stream).collect();
        let idle = core.end("waiting for what queues still do", |driver| {
            let wait = |stream: Stream| {
                // SAFETY: the stream is live.
                unsafe { driver.synchronize_stream(stream) }
            };
            streams.into_iter().chain([core.service]).map(wait).fold(Ok(()), Call::and)
        });
        drop(core);
        idle
    }

    /// Memory that somebody else in the process has registered with the driver is taken as it is, and left
    /// to them.
    fn pin(&self, range: Span) -> Result<u64> {
        self.core.memory.pin(&self.core, range)
    }

    fn unpin(&self, address: u64) -> Result<()> {
        self.core.memory.unpin(&self.core, address)
    }

    fn can_access(&self, peer: &StreamDevice<B>) -> Result<bool> {
        let (ours, theirs) = (self.core.ordinal, peer.core.ordinal);
        if ours == theirs {
            return Ok(true);
        }
        let mut can = false;
        self.core.call("asking for peer access", |driver| {
            // SAFETY: the driver knows both devices.
            unsafe { driver.can_access(&mut can, ours, theirs) }
        })?;
        Ok(can)
    }

    fn enable_access(&self, peer: &StreamDevice<B>) -> Result<()> {
        if !self.can_access(peer)? {
            let (ours, theirs) = (&self.core.facts.name, &peer.core.facts.name);
            let message = format!("'{ours}' cannot reach memory of '{theirs}'");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if self.core.ordinal == peer.core.ordinal {
            return Ok(());
        }
        let enabled = self.core.try_call(|driver| {
            // SAFETY: both contexts are live, ours is current.
            unsafe { driver.enable_access(&peer.core.context) }
        });
        match enabled {
            Err(failure) if failure.is(Code::PEER_ACCESS_ALREADY_ENABLED) => {}
            enabled => enabled.map_err(|failure| {
                self.core.failed_with(&peer.core, "enabling peer access", failure)
            })?,
        }
        peer.core.memory.allow(&peer.core, self.core.ordinal)
    }

    fn optimal_group_items(
        &self,
        kernel: &StreamKernel<B::Driver>,
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        kernel.on(&self.core)?.optimal_group_items(dynamic_shared_bytes)
    }

    fn max_cooperative_groups(
        &self,
        kernel: &StreamKernel<B::Driver>,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        kernel.on(&self.core)?.most_cooperative_groups(items, dynamic_shared_bytes)
    }

    fn rank(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        Ok(B::rank(entry, &self.core))
    }
}

impl<D: Driver> DeviceCore<D> {
    /// The driver.
    #[inline]
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// What does not change of the device.
    #[inline]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The driver's number for it.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Its context.
    pub fn context(&self) -> &D::Context {
        &self.context
    }

    /// What the backend keeps for it.
    pub fn own(&self) -> &D::Own {
        &self.own
    }

    /// The stream for what the backend itself copies and launches.
    pub fn service(&self) -> Stream {
        self.service
    }

    /// Whether all kernels that were launched on it are known to be done.
    pub fn is_known_idle(&self) -> bool {
        self.registry.is_idle()
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Makes the device's context current until the answer is dropped.
    ///
    /// # Errors
    /// The error by which the device was lost; those of the driver.
    #[inline]
    pub fn enter(&self) -> Result<<D::Context as Context>::Entered<'_>> {
        self.refuse_if_lost()?;
        self.context.enter().map_err(|failure| self.not_entered(failure))
    }

    #[cold]
    fn not_entered(&self, failure: Failure) -> Error {
        self.failed("entering the context", failure)
    }

    /// Calls the driver with the device's context current.
    ///
    /// # Errors
    /// The error by which the device was lost; those of the driver. `doing` is what was asked for.
    pub fn call(&self, doing: impl fmt::Display, call: impl FnOnce(&D) -> Call) -> Result<()> {
        self.refuse_if_lost()?;
        self.check(doing, self.try_call(call))
    }

    /// Ends the life of something. At the end of the process the driver may have done that before.
    ///
    /// # Errors
    /// As for [`DeviceCore::call`].
    pub fn end(&self, doing: impl fmt::Display, call: impl FnOnce(&D) -> Call) -> Result<()> {
        self.refuse_if_lost()?;
        match self.try_call(call) {
            Err(failure) if failure.is(Code::DEINITIALIZED) => Ok(()),
            ended => self.check(doing, ended),
        }
    }

    /// As [`DeviceCore::call`], but what went wrong is told as it is, and also a lost device is asked.
    pub fn try_call(&self, call: impl FnOnce(&D) -> Call) -> Call {
        let _current = self.context.enter()?;
        call(self.driver())
    }

    /// Turns a result of the driver into one of ours, and remembers if the device was lost.
    ///
    /// # Errors
    /// The driver's; `doing` is what was asked for.
    #[inline]
    pub fn check(&self, doing: impl fmt::Display, call: Call) -> Result<()> {
        call.map_err(|failure| self.failed(doing, failure))
    }

    /// # Errors
    /// The error by which the device was lost.
    #[inline]
    pub fn refuse_if_lost(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(error) => Err(again(error)),
        }
    }

    /// The error of a call that failed. After a sticky one the device is lost.
    #[cold]
    pub fn failed(&self, doing: impl fmt::Display, failure: Failure) -> Error {
        let doing = format!("{} device '{}': {doing}", D::NAME, self.facts.name);
        let error = error::of_driver(self.driver(), &doing, failure);
        // A driver that has ended answers nothing else, of this device or others.
        let has_ended = failure.is(Code::DEINITIALIZED);
        if has_ended || !failure.result.is_some_and(|result| self.driver().is_lost(result)) {
            return error;
        }
        let told = self.lost.get_or_init(|| {
            let told = self.loss(&error);
            log::error!("{told}");
            told
        });
        told.clone()
    }

    /// The error of a call that names another device too: it is that which is lost, if this one answers
    /// still.
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

    /// What is told from now on: the driver does not say which kernel failed, so all that may have.
    fn loss(&self, error: &Error) -> Error {
        let running = match self.registry.in_flight() {
            kernels if kernels.is_empty() => "no kernel was in flight".to_owned(),
            kernels => format!("in flight were {kernels}"),
        };
        let told = Error::new(
            ErrorCode::BackendFailure,
            format!(
                "{}; {running}; the device is lost, nothing works on it any more: close it",
                error.message()
            ),
        );
        match error.vendor() {
            Some(vendor) => told.with_vendor(vendor.name.clone(), vendor.number),
            None => told,
        }
    }

    /// A stream on which nothing is queued, and its staging memory. To be given to
    /// [`DeviceCore::give_stream`].
    ///
    /// # Errors
    /// Those of the driver.
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

    pub(crate) fn give_stream(&self, stream: Stream, staging: Staging) {
        self.streams.lock().push((stream, staging));
    }

    /// An event; what it stood for is over. To be given to [`DeviceCore::give_event`]. The device's
    /// context is current.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn take_event(&self, kind: EventKind) -> Result<Event> {
        self.try_take_event(kind).map_err(|failure| self.failed("making an event", failure))
    }

    /// The same, but what went wrong is told as it is.
    pub(crate) fn try_take_event(&self, kind: EventKind) -> std::result::Result<Event, Failure> {
        if let Some(event) = self.events[kind as usize].lock().pop() {
            return Ok(event);
        }
        let mut event = Event::NULL;
        // SAFETY: the context is current.
        unsafe { self.driver().create_event(&mut event, kind) }?;
        Ok(event)
    }

    pub(crate) fn give_event(&self, event: Event, kind: EventKind) {
        self.events[kind as usize].lock().push(event);
    }

    /// Keeps a module that the driver did not unload, to try again when the device closes.
    pub(crate) fn abandon(&self, module: Module) {
        self.abandoned.lock().push(module);
    }

    /// Counts the calling thread in until the answer is dropped.
    pub(crate) fn at_work(&self) -> AtWork {
        self.workers.add()
    }

    /// Kernels that a queue has in flight are told of when the device is lost.
    pub(crate) fn register(&self) -> Arc<InFlight> {
        self.registry.add()
    }

    /// The same for kernels on the service stream.
    pub(crate) fn register_service(&self) -> Arc<InFlight> {
        self.registry.add_service()
    }

    /// Gives back what the driver holds. The context is current.
    fn destroy(&self) {
        let driver = self.driver();
        D::is_closing(self);
        self.memory.destroy(driver);
        for module in self.abandoned.lock().drain(..) {
            // SAFETY: it is loaded still, and nobody has it any more.
            let _ = unsafe { driver.unload(module) };
        }
        let service = (self.service, Staging::default());
        for (stream, staging) in self.streams.lock().drain(..).chain([service]) {
            // SAFETY: queues are gone, so nobody uses it; what is queued goes on.
            let _ = unsafe { driver.destroy_stream(stream) };
            staging.destroy(driver);
        }
        for event in self.events.iter().flat_map(|events| std::mem::take(&mut *events.lock())) {
            // SAFETY: nobody uses it.
            let _ = unsafe { driver.destroy_event(event) };
        }
    }
}

impl<D: Driver> Drop for DeviceCore<D> {
    fn drop(&mut self) {
        // Without the context there is nothing that could be given back.
        if let Ok(_current) = self.context.enter().or_else(|_| self.context.force()) {
            self.destroy();
        }
        self.memory.destroy_pool(self.driver());
    }
}

/// The error by which a device was lost, once more.
#[cold]
fn again(error: &Error) -> Error {
    error.clone()
}

/// A stream of its own. The context is current.
pub(crate) fn create_stream<D: Driver>(driver: &D) -> std::result::Result<Stream, Failure> {
    let mut stream = Stream::NULL;
    // SAFETY: the context is current.
    unsafe { driver.create_stream(&mut stream) }?;
    Ok(stream)
}
