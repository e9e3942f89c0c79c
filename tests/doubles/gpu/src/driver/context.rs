//! Contexts: what is made in one ends with it.

use super::lane::{Lane, Lanes, Order};
use super::object::Object;
use super::state::tell;
use super::value::Out;
use super::{Answer, Code, Scope, driver};
use crate::protocol::{Fault, FaultKind, Request};
use crate::{Gpu, Line};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
    pub(crate) lanes: Lanes,
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
    /// A context with this GPU process.
    pub(crate) fn new(handle: usize, device: usize, gpu: Gpu) -> Context {
        Context {
            handle,
            device,
            gpu: Mutex::new(Some(Arc::new(gpu))),
            fault: AtomicU32::new(0),
            lanes: Lanes::default(),
            host_functions: Line::new("host-functions"),
            peers: Mutex::default(),
            limits: Mutex::default(),
        }
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

    /// Lets its kernels access so many bytes at an address, or stops that.
    pub(crate) fn show(&self, address: u64, bytes: u64, accessible: bool) {
        if let Err(fault) = self.ask(&Request::Protect { address, bytes, accessible })
            && self.gpu.lock().is_some()
        {
            self.fail(&fault);
        }
    }

    /// The lane of the stream with handle 0.
    ///
    /// # Errors
    /// Those of making a lane.
    pub(crate) fn own_lane(&self) -> Answer<Arc<Lane>> {
        self.lanes.own(|| self.new_lane(Order::Own))
    }

    /// Makes a lane.
    ///
    /// # Errors
    /// `CONTEXT_IS_DESTROYED`; `LAUNCH_FAILED` if the GPU process is gone.
    pub(crate) fn new_lane(&self, order: Order) -> Answer<Lane> {
        Lane::new(&*self.gpu()?, order)
    }

    /// Waits for all that it was given.
    pub fn wait(&self) {
        for lane in self.lanes.all() {
            lane.line.tail().wait();
        }
    }

    /// Stops all that runs, and ends the GPU process.
    pub(crate) fn stop(&self) {
        let lanes = self.lanes.all();
        for lane in &lanes {
            lane.line.abandon();
        }
        self.host_functions.abandon();
        drop(self.gpu.lock().take());
        for lane in &lanes {
            lane.line.join();
        }
    }
}
