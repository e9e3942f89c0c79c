//! Contexts: what is made in one ends with it.

use super::blocks::{Block, Kind};
use super::memory;
use super::object::{self, Object};
use super::registration::Registration;
use super::state::tell;
use super::stream::Stream;
use super::value::Out;
use super::{Answer, Code, Scope, driver, machine};
use crate::protocol::{Fault, FaultKind, Request};
use crate::{Gpu, HasKind as _, Line};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A context, and the GPU process that it has.
pub struct Context {
    /// Its handle.
    pub handle: usize,
    /// The number of its device.
    pub device: usize,
    /// `None` once the context is gone.
    gpu: Mutex<Option<Arc<Gpu>>>,
    /// What every call answers since a kernel failed; 0 if none has.
    fault: AtomicU32,
    legacy: OnceLock<Arc<Stream>>,
    streams: Mutex<Vec<Weak<Stream>>>,
    /// Runs host functions.
    pub(crate) host_functions: Line,
    /// The handles of contexts whose memory its kernels reach.
    pub(crate) peers: Mutex<BTreeSet<usize>>,
    limits: Mutex<BTreeMap<u32, usize>>,
}

/// The context of a device that does not have to be made.
#[derive(Default)]
pub struct Primary {
    /// How often it was retained, where programs do that.
    pub retained: u32,
    /// The context, once somebody wanted it.
    pub context: Option<Arc<Context>>,
}

impl Object for Context {
    const KIND: &'static str = "context";
    const WRONG: Code = Code::INVALID_CONTEXT;

    fn context_handle(&self) -> usize {
        self.handle
    }

    fn is_of_program(&self) -> bool {
        driver().vendor.scope() == Scope::Context
    }
}

/// The current context, in which nothing failed.
///
/// # Errors
/// `INVALID_CONTEXT`, a violation, if there is none; what failed.
pub fn current() -> Answer<Arc<Context>> {
    let context = current_or_failed()?;
    context.check()?;
    Ok(context)
}

/// The current context, for functions that give something back also if something failed.
///
/// # Errors
/// `INVALID_CONTEXT`, a violation, if there is none.
pub fn current_or_failed() -> Answer<Arc<Context>> {
    driver().vendor.current()
}

/// Waits for all of the current context.
pub fn synchronize() -> Answer {
    let context = current()?;
    context.wait();
    context.check()
}

/// Sets one of the limits that there are, each with the most that it can be.
pub fn set_limit(limits: &[(u32, usize)], limit: u32, value: usize) -> Answer {
    let context = current()?;
    let found = limits.iter().find(|(known, _)| *known == limit);
    let (_, most) = found.ok_or(Code::UNSUPPORTED_LIMIT)?;
    if value > *most {
        return Err(Code::INVALID_VALUE);
    }
    context.limits.lock().insert(limit, value);
    Ok(())
}

/// What one of the limits is, each of which is at first as it says here.
pub fn limit(limits: &[(u32, usize)], value: Out<usize>, limit: u32) -> Answer {
    let found = limits.iter().find(|(known, _)| *known == limit);
    let (_, default) = found.ok_or(Code::UNSUPPORTED_LIMIT)?;
    let set = current()?.limits.lock().get(&limit).copied();
    value.put(set.unwrap_or(*default))
}

impl Context {
    /// Makes a context and its GPU process. Blocks until that runs.
    ///
    /// # Errors
    /// `OPERATING_SYSTEM` if it does not start.
    pub fn create(device: usize) -> Answer<Arc<Context>> {
        let machine = machine()?;
        let gpu = Gpu::start(machine.program(), machine.windows()).map_err(|error| {
            tell(&error);
            Code::OPERATING_SYSTEM
        })?;
        let host_functions = Line::new("host-functions");
        let context = object::add(|handle| Context {
            handle,
            device,
            gpu: Mutex::new(Some(Arc::new(gpu))),
            fault: AtomicU32::new(0),
            legacy: OnceLock::new(),
            streams: Mutex::default(),
            host_functions,
            peers: Mutex::default(),
            limits: Mutex::default(),
        });
        machine.contexts.lock().push(Arc::clone(&context));
        for block in machine.blocks.select(Block::is_shared) {
            context.show(&block, true);
        }
        Ok(context)
    }

    /// Ends it and all that is in it. What still runs is stopped.
    pub fn destroy(self: &Arc<Context>) {
        let Ok(machine) = machine() else { return };
        object::end(self.handle);
        machine.contexts.lock().retain(|context| context.handle != self.handle);
        let streams = self.all_streams();
        for stream in &streams {
            stream.abandon();
        }
        self.host_functions.abandon();
        drop(self.gpu.lock().take());
        for stream in &streams {
            stream.join();
        }
        self.lose_objects();
        self.lose_blocks();
    }

    /// The GPU process.
    ///
    /// # Errors
    /// `CONTEXT_IS_DESTROYED`.
    pub(crate) fn gpu(&self) -> Answer<Arc<Gpu>> {
        self.gpu.lock().clone().ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    /// Asks the GPU process beside all streams.
    ///
    /// # Errors
    /// Those of the request.
    pub fn ask(&self, request: &Request) -> Result<Vec<u8>, Fault> {
        let gone = |_| Fault { kind: FaultKind::Other, message: "the context is gone".to_owned() };
        self.gpu().map_err(gone)?.ask(request)
    }

    /// Nothing, if nothing failed in it.
    ///
    /// # Errors
    /// What failed first.
    pub fn check(&self) -> Answer {
        match self.fault.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    }

    /// Notes that something failed, after which nothing works.
    pub(crate) fn fail(&self, fault: &Fault) {
        let code = driver().vendor.code_of_fault(fault.kind);
        let (order, first) = (Ordering::AcqRel, Ordering::Acquire);
        if self.fault.compare_exchange(0, code.0, order, first).is_ok()
            && driver().settings.get("quiet").is_none()
        {
            tell(&fault.message);
        }
    }

    /// Lets its kernels access a block, or stops that.
    pub(crate) fn show(&self, block: &Block, accessible: bool) {
        let (address, bytes) = (block.address, block.bytes);
        if let Err(fault) = self.ask(&Request::Protect { address, bytes, accessible })
            && self.gpu.lock().is_some()
        {
            self.fail(&fault);
        }
    }

    /// The stream with handle 0.
    ///
    /// # Errors
    /// Those of making a stream.
    pub(crate) fn legacy(self: &Arc<Context>) -> Answer<Arc<Stream>> {
        if let Some(stream) = self.legacy.get() {
            return Ok(Arc::clone(stream));
        }
        let stream = Arc::new(Stream::new(self, 0, true)?);
        Ok(Arc::clone(self.legacy.get_or_init(|| stream)))
    }

    /// The same, if it was used.
    pub(crate) fn used_legacy(&self) -> Option<&Arc<Stream>> {
        self.legacy.get()
    }

    /// Enters a stream.
    pub(crate) fn enter_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// The streams that the program made, those included that it destroyed and that still work.
    pub(crate) fn streams(&self) -> Vec<Arc<Stream>> {
        self.streams.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits for all that it was given.
    pub fn wait(&self) {
        for stream in self.all_streams() {
            stream.tail().wait();
        }
    }

    /// Registered host memory, of any context.
    pub(crate) fn registrations() -> Vec<Arc<Registration>> {
        let Ok(machine) = machine() else { return Vec::new() };
        let shadows = machine.blocks.select(|block| matches!(block.kind, Kind::Shadow(_)));
        let registration = |block: &Arc<Block>| match &block.kind {
            Kind::Shadow(registration) => Some(Arc::clone(registration)),
            _ => None,
        };
        shadows.iter().filter_map(registration).collect()
    }

    fn all_streams(&self) -> Vec<Arc<Stream>> {
        self.streams().into_iter().chain(self.legacy.get().cloned()).collect()
    }

    fn lose_objects(&self) {
        for (handle, object) in object::live() {
            if object.context == self.handle {
                object::end(handle);
                if object.is_of_program {
                    self.lose(format!("{} {handle:#x}", object.kind()));
                }
            }
        }
    }

    fn lose_blocks(self: &Arc<Context>) {
        let Ok(machine) = machine() else { return };
        for block in machine.blocks.select(|block| block.context.handle == self.handle) {
            if block.is_of_program() && !block.is_ending() {
                self.lose(block.describe());
            }
            memory::release(machine, &block);
        }
    }

    /// What is lost because a kernel failed is nobody's fault.
    fn lose(&self, what: String) {
        if self.check().is_ok() {
            driver().lost.lock().push(what);
        }
    }
}
