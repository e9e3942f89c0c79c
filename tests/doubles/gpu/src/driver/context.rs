//! Contexts. Objects made in a context end with it.

use super::channel::{Channel, Channels, Order};
use super::object::Object;
use super::state::print_error;
use super::value::Out;
use super::{Code, DriverResult, Scope, driver};
use crate::protocol::{Fault, FaultKind, Request};
use crate::{Gpu, SubmissionQueue};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A context and its GPU process.
pub struct Context {
    /// Handle of the context.
    pub handle: usize,
    /// The number of its device.
    pub device: usize,
    /// GPU process; `None` once the context is gone.
    gpu: Mutex<Option<Arc<Gpu>>>,
    /// Code that every call returns since a kernel failed; 0 before a failure.
    fault: AtomicU32,
    pub(crate) channels: Channels,
    /// Queue for host functions.
    pub(crate) host_functions: SubmissionQueue,
    /// Handles of the contexts whose memory this context's kernels reach.
    pub(crate) peers: Mutex<BTreeSet<usize>>,
    limits: Mutex<BTreeMap<u32, usize>>,
}

/// The primary context of a device, which no program has to create.
#[derive(Default)]
pub struct Primary {
    /// Number of times that programs retained the context.
    pub retained: u32,
    /// The context, once it is first needed.
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

/// Returns the current context, unless a failure occurred in it.
///
/// # Errors
/// `INVALID_CONTEXT`, a violation, if no context is current; the context's failure.
pub fn current() -> DriverResult<Arc<Context>> {
    let context = current_or_failed()?;
    context.check()?;
    Ok(context)
}

/// Returns the current context, for functions that free something even after a failure.
///
/// # Errors
/// `INVALID_CONTEXT`, a violation, if no context is current.
pub fn current_or_failed() -> DriverResult<Arc<Context>> {
    driver().vendor.current()
}

/// Waits for all work of the current context.
pub fn synchronize() -> DriverResult {
    let context = current()?;
    context.wait();
    context.check()
}

/// Sets a limit. `limits` has each known limit with its maximum.
pub fn set_limit(limits: &[(u32, usize)], limit: u32, value: usize) -> DriverResult {
    let context = current()?;
    let found = limits.iter().find(|(known, _)| *known == limit);
    let (_, most) = found.ok_or(Code::UNSUPPORTED_LIMIT)?;
    if value > *most {
        return Err(Code::INVALID_VALUE);
    }
    context.limits.lock().insert(limit, value);
    Ok(())
}

/// Stores the value of a limit. `limits` has each known limit with its default.
pub fn limit(limits: &[(u32, usize)], value: Out<usize>, limit: u32) -> DriverResult {
    let found = limits.iter().find(|(known, _)| *known == limit);
    let (_, default) = found.ok_or(Code::UNSUPPORTED_LIMIT)?;
    let set = current()?.limits.lock().get(&limit).copied();
    value.put(set.unwrap_or(*default))
}

impl Context {
    /// Creates a context with this GPU process.
    pub(crate) fn new(handle: usize, device: usize, gpu: Gpu) -> Context {
        Context {
            handle,
            device,
            gpu: Mutex::new(Some(Arc::new(gpu))),
            fault: AtomicU32::new(0),
            channels: Channels::default(),
            host_functions: SubmissionQueue::new("host-functions"),
            peers: Mutex::default(),
            limits: Mutex::default(),
        }
    }

    /// Returns the GPU process.
    ///
    /// # Errors
    /// `CONTEXT_IS_DESTROYED`.
    pub(crate) fn gpu(&self) -> DriverResult<Arc<Gpu>> {
        self.gpu.lock().clone().ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    /// Sends a request to the GPU process, outside all streams.
    ///
    /// # Errors
    /// The request's failure.
    pub fn ask(&self, request: &Request) -> Result<Vec<u8>, Fault> {
        let gone = |_| Fault { kind: FaultKind::Other, message: "the context is gone".to_owned() };
        self.gpu().map_err(gone)?.ask(request)
    }

    /// Succeeds if no failure occurred in the context.
    ///
    /// # Errors
    /// The first failure.
    pub fn check(&self) -> DriverResult {
        match self.fault.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    }

    /// Records a failure, after which no call works in the context.
    pub(crate) fn fail(&self, fault: &Fault) {
        let code = driver().vendor.code_of_fault(fault.kind);
        let (order, first) = (Ordering::AcqRel, Ordering::Acquire);
        if self.fault.compare_exchange(0, code.0, order, first).is_ok()
            && driver().settings.get("quiet").is_none()
        {
            print_error(&fault.message);
        }
    }

    /// Grants the context's kernels access to `bytes` bytes at an address, or revokes it.
    pub(crate) fn show(&self, address: u64, bytes: u64, accessible: bool) {
        if let Err(fault) = self.ask(&Request::Protect { address, bytes, accessible })
            && self.gpu.lock().is_some()
        {
            self.fail(&fault);
        }
    }

    /// Returns the channel of the stream with handle 0.
    ///
    /// # Errors
    /// Failure to create the channel.
    pub(crate) fn own_channel(&self) -> DriverResult<Arc<Channel>> {
        self.channels.own(|| self.new_channel(Order::Own))
    }

    /// Creates a channel.
    ///
    /// # Errors
    /// `CONTEXT_IS_DESTROYED`; `LAUNCH_FAILED` if the GPU process is gone.
    pub(crate) fn new_channel(&self, order: Order) -> DriverResult<Channel> {
        Channel::new(&*self.gpu()?, order)
    }

    /// Waits for all work in the context.
    pub fn wait(&self) {
        for channel in self.channels.all() {
            channel.queue.tail().wait();
        }
    }

    /// Stops all running work, and ends the GPU process.
    pub(crate) fn stop(&self) {
        let channels = self.channels.all();
        for channel in &channels {
            channel.queue.abandon();
        }
        self.host_functions.abandon();
        drop(self.gpu.lock().take());
        for channel in &channels {
            channel.queue.join();
        }
    }
}
