//! An open device.

use crate::context::{Entered, PrimaryContext};
use crate::driver::types::{
    Event as RawEvent, Module as RawModule, Stream as RawStream, event_flag, limit, stream_flag,
};
use crate::driver::{Call, CuResult, Driver, Failure};
use crate::image;
use crate::in_flight::{InFlight, Registry};
use crate::memory::Memory;
use crate::physical::Physical;
use crate::settings::{JitSettings, LimitSettings, Settings};
use crate::{CudaBackend, CudaEvent, CudaKernel, CudaModule, CudaQueue, error};
use longshore_plugin_api::{
    Acceptance, AtWork, Device, Error, ErrorCode, ImageBytes, ImageEntry, MemoryKind, Result, Span,
    Workers,
};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A GPU: its primary context, retained once for each time that it is opened.
///
/// LLVM: `ol_device_handle_t`, `CUDADeviceTy`.
pub struct CudaDevice {
    core: Arc<DeviceCore>,
}

/// What an event of the driver is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Places alone.
    Plain,
    /// Places and their times.
    Timed,
    /// To be waited for asleep.
    Sleeper,
}

/// What all that is on a device shares. Whatever was made from it holds it.
pub(crate) struct DeviceCore {
    pub(crate) physical: Arc<Physical>,
    pub(crate) context: PrimaryContext,
    pub(crate) memory: Memory,
    pub(crate) jit: JitSettings,
    /// For what the backend itself copies and launches.
    pub(crate) service: RawStream,
    pub(crate) registry: Registry,
    streams: Mutex<Vec<RawStream>>,
    /// By their kinds.
    events: [Mutex<Vec<RawEvent>>; 3],
    /// Modules that the driver did not unload when it should.
    abandoned: Mutex<Vec<RawModule>>,
    lost: OnceLock<Error>,
    workers: Workers,
}

impl CudaDevice {
    /// Retains the primary context. Blocks.
    ///
    /// # Errors
    /// Those of the driver; `Unsupported` for a limit that it does not take.
    pub(crate) fn open(physical: &Arc<Physical>, settings: &Settings) -> Result<CudaDevice> {
        let doing = format!("opening CUDA device '{}'", physical.name);
        let failed = |failure| error::driver(&physical.driver, &doing, failure);
        let context = PrimaryContext::retain(physical).map_err(failed)?;
        let entered = context.enter().map_err(failed)?;
        set_limits(&physical.driver, &settings.limits).map_err(failed)?;
        let service = create_stream(&physical.driver).map_err(failed)?;
        let memory = Memory::new(physical).map_err(failed).inspect_err(|_| {
            // SAFETY: nothing was queued on it.
            let _ = unsafe { physical.driver.cuStreamDestroy(service) };
        })?;
        drop(entered);
        let core = DeviceCore {
            physical: Arc::clone(physical),
            context,
            memory,
            jit: settings.jit,
            service,
            registry: Registry::default(),
            streams: Mutex::default(),
            events: Default::default(),
            abandoned: Mutex::default(),
            lost: OnceLock::new(),
            workers: Workers::default(),
        };
        Ok(CudaDevice { core: Arc::new(core) })
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }
}

impl Device<CudaBackend> for CudaDevice {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(match image::suitability(image, self.core.physical.arch) {
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

    fn load(&self, image: ImageBytes) -> Result<CudaModule> {
        CudaModule::load(&self.core, image)
    }

    fn create_queue(&self) -> Result<CudaQueue> {
        CudaQueue::new(&self.core)
    }

    fn create_event(&self, timing: bool) -> Result<CudaEvent> {
        self.core.refuse_if_lost()?;
        Ok(CudaEvent::new(&self.core, timing))
    }

    /// Waits for what queues that were given up still do, then releases the context.
    fn close(self) -> Result<()> {
        let core = self.core;
        core.workers.await_none();
        // Not for the context: others of the process may use it.
        let streams: Vec<_> = core.streams.lock().iter().copied().chain([core.service]).collect();
        let idle = core.end("waiting for what queues still do", |driver| {
            let wait = |stream: RawStream| {
                // SAFETY: the stream is live.
                unsafe { driver.cuStreamSynchronize(stream) }
            };
            streams.into_iter().map(wait).fold(Ok(()), Call::and)
        });
        drop(core);
        idle
    }

    /// Memory that somebody else in the process has registered with CUDA is taken as it is, and left
    /// to them.
    fn pin(&self, range: Span) -> Result<u64> {
        self.core.memory.pin(&self.core, range)
    }

    fn unpin(&self, address: u64) -> Result<()> {
        self.core.memory.unpin(&self.core, address)
    }

    fn can_access(&self, peer: &CudaDevice) -> Result<bool> {
        if self.core.physical.raw == peer.core.physical.raw {
            return Ok(true);
        }
        let mut can = 0;
        self.core.call("asking for peer access", |driver| {
            // SAFETY: the output is ours; the driver knows both devices.
            unsafe {
                driver.cuDeviceCanAccessPeer(
                    &mut can,
                    self.core.physical.raw,
                    peer.core.physical.raw,
                )
            }
        })?;
        Ok(can != 0)
    }

    fn enable_access(&self, peer: &CudaDevice) -> Result<()> {
        if !self.can_access(peer)? {
            let (ours, theirs) = (&self.core.physical.name, &peer.core.physical.name);
            let message = format!("'{ours}' cannot reach memory of '{theirs}'");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if self.core.physical.raw == peer.core.physical.raw {
            return Ok(());
        }
        let enabled = self.core.try_call(|driver| {
            // SAFETY: both contexts are live, ours is current.
            unsafe { driver.cuCtxEnablePeerAccess(peer.core.context.raw(), 0) }
        });
        match enabled {
            Err(failure) if failure.is(CuResult::PEER_ACCESS_ALREADY_ENABLED) => {}
            enabled => enabled.map_err(|failure| {
                self.core.failed_with(&peer.core, "enabling peer access", failure)
            })?,
        }
        peer.core.memory.allow(&peer.core, self.core.physical.raw)
    }

    fn optimal_group_items(&self, kernel: &CudaKernel, dynamic_shared_bytes: u64) -> Result<u32> {
        kernel.on(&self.core)?.optimal_group_items(dynamic_shared_bytes)
    }

    fn max_cooperative_groups(
        &self,
        kernel: &CudaKernel,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        kernel.on(&self.core)?.most_cooperative_groups(items, dynamic_shared_bytes)
    }

    fn rank(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        Ok(image::rank(entry, self.core.physical.arch))
    }
}

impl DeviceCore {
    pub(crate) fn driver(&self) -> &Driver {
        &self.physical.driver
    }

    /// Makes the device's context current until the answer is dropped.
    ///
    /// # Errors
    /// The error by which the device was lost; those of the driver.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        self.refuse_if_lost()?;
        self.context.enter().map_err(|failure| self.failed("entering the context", failure))
    }

    /// Calls the driver with the device's context current.
    ///
    /// # Errors
    /// The error by which the device was lost; those of the driver. `doing` is what was asked for.
    pub(crate) fn call(
        &self,
        doing: impl fmt::Display,
        call: impl FnOnce(&Driver) -> Call,
    ) -> Result<()> {
        self.refuse_if_lost()?;
        self.check(doing, self.try_call(call))
    }

    /// Ends the life of something. At the end of the process the driver may have done that before.
    ///
    /// # Errors
    /// As for [`DeviceCore::call`].
    pub(crate) fn end(
        &self,
        doing: impl fmt::Display,
        call: impl FnOnce(&Driver) -> Call,
    ) -> Result<()> {
        self.refuse_if_lost()?;
        match self.try_call(call) {
            Err(failure) if failure.is(CuResult::DEINITIALIZED) => Ok(()),
            ended => self.check(doing, ended),
        }
    }

    /// As [`DeviceCore::call`], but what went wrong is told as it is, and also a lost device is asked.
    pub(crate) fn try_call(&self, call: impl FnOnce(&Driver) -> Call) -> Call {
        let _current = self.context.enter()?;
        call(self.driver())
    }

    /// Turns a result of the driver into one of ours, and remembers if the device was lost.
    ///
    /// # Errors
    /// The driver's; `doing` is what was asked for.
    #[inline]
    pub(crate) fn check(&self, doing: impl fmt::Display, call: Call) -> Result<()> {
        call.map_err(|failure| self.failed(doing, failure))
    }

    /// # Errors
    /// The error by which the device was lost.
    #[inline]
    pub(crate) fn refuse_if_lost(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// The error of a call that failed. After a sticky one the device is lost.
    #[cold]
    pub(crate) fn failed(&self, doing: impl fmt::Display, failure: Failure) -> Error {
        let doing = format!("CUDA device '{}': {doing}", self.physical.name);
        let error = error::driver(self.driver(), &doing, failure);
        if !failure.result.is_some_and(CuResult::is_sticky) {
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
    pub(crate) fn failed_with(
        &self,
        other: &DeviceCore,
        doing: impl fmt::Display,
        failure: Failure,
    ) -> Error {
        let is_sticky = |failure: &Failure| failure.result.is_some_and(CuResult::is_sticky);
        let answers = || {
            let asked = self.try_call(|driver| {
                // SAFETY: the stream is live.
                unsafe { driver.cuStreamQuery(self.service) }
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

    /// A stream on which nothing is queued. To be given to [`DeviceCore::give_stream`].
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn take_stream(&self) -> Result<RawStream> {
        let _current = self.enter()?;
        let mut streams = self.streams.lock();
        let idle = |stream: &RawStream| {
            // SAFETY: the stream is live.
            unsafe { self.driver().cuStreamQuery(*stream) }.is_ok()
        };
        if let Some(at) = streams.iter().position(idle) {
            return Ok(streams.swap_remove(at));
        }
        drop(streams);
        create_stream(self.driver()).map_err(|failure| self.failed("making a queue", failure))
    }

    pub(crate) fn give_stream(&self, stream: RawStream) {
        self.streams.lock().push(stream);
    }

    /// An event; what it stood for is over. To be given to [`DeviceCore::give_event`]. The device's
    /// context is current.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn take_event(&self, kind: EventKind) -> Result<RawEvent> {
        if let Some(event) = self.events[kind as usize].lock().pop() {
            return Ok(event);
        }
        let mut event = RawEvent::NULL;
        let flags = match kind {
            EventKind::Plain => event_flag::DISABLE_TIMING,
            EventKind::Timed => event_flag::DEFAULT,
            EventKind::Sleeper => event_flag::DISABLE_TIMING | event_flag::BLOCKING_SYNC,
        };
        // SAFETY: the output is ours.
        let made = unsafe { self.driver().cuEventCreate(&mut event, flags) };
        self.check("making an event", made).map(|()| event)
    }

    pub(crate) fn give_event(&self, event: RawEvent, kind: EventKind) {
        self.events[kind as usize].lock().push(event);
    }

    /// Keeps a module that the driver did not unload, to try again when the device closes.
    pub(crate) fn abandon(&self, module: RawModule) {
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

    /// Gives back what the driver holds. The context is current.
    fn destroy(&self) {
        let driver = self.driver();
        self.memory.destroy(driver);
        for module in self.abandoned.lock().drain(..) {
            // SAFETY: it is loaded still, and nobody has it any more.
            let _ = unsafe { driver.cuModuleUnload(module) };
        }
        for stream in self.streams.lock().drain(..).chain([self.service]) {
            // SAFETY: queues are gone, so nobody uses it; what is queued goes on.
            let _ = unsafe { driver.cuStreamDestroy(stream) };
        }
        for event in self.events.iter().flat_map(|events| std::mem::take(&mut *events.lock())) {
            // SAFETY: nobody uses it.
            let _ = unsafe { driver.cuEventDestroy(event) };
        }
    }
}

impl Drop for DeviceCore {
    fn drop(&mut self) {
        // Without the context the driver has given back what was in it.
        if let Ok(_current) = self.context.enter().or_else(|_| self.context.push()) {
            self.destroy();
        }
        self.memory.destroy_pool(self.driver());
    }
}

/// A stream that does not wait for the default one of the process. The context is current.
pub(crate) fn create_stream(driver: &Driver) -> std::result::Result<RawStream, Failure> {
    let mut stream = RawStream::NULL;
    // SAFETY: the output is ours.
    unsafe { driver.cuStreamCreate(&mut stream, stream_flag::NON_BLOCKING) }?;
    Ok(stream)
}

/// The context is current. It may be shared with others of the process, whose limits they are then too.
fn set_limits(driver: &Driver, wanted: &LimitSettings) -> Call {
    let limits = [
        (limit::STACK_SIZE, wanted.stack_bytes),
        (limit::MALLOC_HEAP_SIZE, wanted.heap_bytes),
        (limit::PRINTF_FIFO_SIZE, wanted.printf_bytes),
    ];
    for (which, bytes) in limits {
        if let Some(bytes) = bytes {
            // SAFETY: the context is current.
            match unsafe { driver.cuCtxSetLimit(which, bytes) } {
                // Some are fixed from the first kernel on that needs them, of whoever has the context.
                Err(failure) if failure.is(CuResult::INVALID_VALUE) => {
                    log::warn!(
                        "limit {which} of the context stays: it is in use, or cannot be {bytes} bytes"
                    );
                }
                set => set?,
            }
        }
    }
    Ok(())
}
