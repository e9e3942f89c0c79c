//! Queues of another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_plugin_api::{Arguments, Error, HostFunction, LaunchShape, Result, Span};

use super::accepted_shapes::{AcceptedShapes, Shape, digest};
use parking_lot::Mutex;

use super::device::no_handle;
use super::event::IsolatedEvent;
use super::in_flight::Launches;
use super::link::Link;
use super::module::IsolatedKernel;
use super::scratch::{self, Scratch};
use crate::plugin::interface::messages::QueueCall;
use crate::plugin::protocol::{Id, Launch, Request, put_argument};

/// An in-order queue. A launch like an accepted one is sent without waiting for a reply. If the
/// plugin refuses the launch this time, the next call that waits for the queue reports the error.
pub struct IsolatedQueue {
    pub(super) link: Arc<Link>,
    pub(super) id: Id,
    /// Number of calls that queued work without waiting, and the number of such calls whose work
    /// was waited for later.
    queued: AtomicU64,
    waited: AtomicU64,
    accepted: AcceptedShapes,
    launches: Arc<Launches>,
    /// The first failure of work that the process of the queue does not perform.
    pub(super) failure: Arc<Mutex<Option<Error>>>,
    /// Number of calls that queued work which may write memory of the program, or wait for such
    /// work, and the number of such calls whose work was waited for later.
    touched: AtomicU64,
    settled: AtomicU64,
}

impl IsolatedQueue {
    pub(in crate::plugin) fn new(link: Arc<Link>, id: Id) -> Self {
        let launches = link.registry.queue();
        let (queued, waited) = (AtomicU64::new(0), AtomicU64::new(0));
        let (accepted, failure) = (AcceptedShapes::default(), Arc::default());
        let (touched, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { link, id, queued, waited, accepted, launches, failure, touched, settled }
    }

    pub(in crate::plugin) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(in crate::plugin) fn request<'a>(&self, call: QueueCall<'a>) -> Request<'a> {
        Request::Queue(self.id, call)
    }

    /// Runs a call that queues work without waiting.
    ///
    /// # Errors
    /// Every error of `enqueue`.
    pub(in crate::plugin) fn queueing<T>(&self, enqueue: impl FnOnce() -> Result<T>) -> Result<T> {
        let queued = enqueue();
        // Counted after the call: a concurrent wait must not count work that it did not wait for.
        self.queued.fetch_add(1, Ordering::Release);
        queued
    }

    /// Returns whether all work queued by finished calls is known to be done.
    pub(super) fn is_known_idle(&self) -> bool {
        self.waited.load(Ordering::Acquire) == self.queued.load(Ordering::Acquire)
    }

    /// Notes that work is queued which may write memory of the program. Called before it is queued.
    pub(super) fn touches_host(&self) {
        self.touched.fetch_add(1, Ordering::Release);
    }

    /// Returns whether no queued work is known that may write memory of the program.
    pub(super) fn leaves_host_alone(&self) -> bool {
        self.settled.load(Ordering::Acquire) == self.touched.load(Ordering::Acquire)
    }

    /// Runs a call that waits for all earlier work. A failed call may have been refused without
    /// waiting.
    ///
    /// # Errors
    /// `Unsupported` in a host function of this queue, and every error of `wait`.
    pub(in crate::plugin) fn waiting<T>(&self, wait: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.link.is_here() {
            self.link.callbacks.functions.refuse_inside(self.id)?;
        }
        let touched = self.touched.load(Ordering::Acquire);
        let (queued, noted) = (self.queued.load(Ordering::Acquire), self.launches.noted());
        let result = wait();
        if result.is_ok() {
            self.waited.fetch_max(queued, Ordering::Release);
            self.settled.fetch_max(touched, Ordering::Release);
            self.launches.are_done(noted);
        }
        match (result, self.failure.lock().take()) {
            (Ok(_), Some(error)) => Err(error),
            (result, _) => result,
        }
    }

    fn enqueue(&self, request: &Request<'_>, shape: Option<Shape>) -> Result<()> {
        match shape {
            Some(shape) if self.accepted.has(&shape) => self.link.post(request),
            shape => {
                let reply = self.link.ask(request);
                if let (Ok(()), Some(shape)) = (&reply, shape) {
                    self.accepted.add(shape);
                }
                reply
            }
        }
    }
}

/// The number of the next signal of this program.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

fn known(kernel: &IsolatedKernel, shape: &LaunchShape, arguments: Arguments<'_>) -> Shape {
    Shape {
        kernel: kernel.id(),
        groups: shape.groups,
        items: shape.items,
        shared_bytes: shape.dynamic_shared_bytes,
        passing: shape.passing,
        sizes: digest(arguments.values().map(<[u8]>::len)),
    }
}

/// Methods written by hand.
impl IsolatedQueue {
    pub(in crate::plugin) fn launch_there(
        &self,
        kernel: &IsolatedKernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        thread_local! {
            static VALUES: Scratch = const { Scratch::new(Vec::new()) };
        }
        let mut values = scratch::take(&VALUES);
        arguments.values().for_each(|value| put_argument(value, &mut values));
        let (queue, kernel_id, shape) = (self.id, kernel.id(), *shape);
        let launch = Launch { queue, kernel: kernel_id, shape, arguments: &values };
        let request = Request::Launch(launch);
        self.launches.note(kernel_id);
        let result = if shape.wait {
            self.waiting(|| self.link.ask_and_finish(&request))
        } else {
            let is_plain = !shape.cooperative && shape.cluster.is_none();
            let shape = is_plain.then(|| known(kernel, &shape, arguments));
            self.queueing(|| self.enqueue(&request, shape))
        };
        scratch::keep(&VALUES, values);
        result
    }

    pub(in crate::plugin) fn fill_there(
        &self,
        destination: Span,
        pattern: &[u8],
        wait: bool,
    ) -> Result<()> {
        let (address, bytes) = (destination.address(), destination.bytes());
        let request = Request::Fill { queue: self.id, address, bytes, pattern, wait };
        if wait {
            return self.waiting(|| self.link.ask_and_finish(&request));
        }
        self.queueing(|| self.link.ask(&request))
    }

    /// Makes later work wait for the event, also for one of another process.
    pub(in crate::plugin) fn wait_event_there(&self, event: &IsolatedEvent) -> Result<()> {
        self.touches_host();
        if Arc::ptr_eq(event.link(), &self.link) {
            let request = Request::WaitEvent { queue: self.id, event: event.id() };
            return self.queueing(|| self.link.post(&request));
        }
        let (ours, theirs) = (self.link.channel().address(), event.link().channel().address());
        let (Some(to), Some(from)) = (ours, theirs) else {
            return event.id_for(&self.link).map(drop);
        };
        let signal = SIGNALS.fetch_add(1, Ordering::Relaxed);
        event.link().post(&Request::Announce { event: event.id(), to, signal })?;
        self.queueing(|| self.link.post(&Request::AwaitSignal { queue: self.id, signal, from, to }))
    }

    /// Refuses: a handle of the driver is valid in the other process alone.
    pub(in crate::plugin) fn driver_stream_there(&self) -> Result<u64> {
        Err(no_handle("stream"))
    }

    pub(in crate::plugin) fn host_function_there(&self, function: HostFunction) -> Result<()> {
        if !self.link.is_here() {
            return self.link.ask(&self.request(QueueCall::IsIdle {})).map(|_: bool| ());
        }
        self.touches_host();
        let functions = &self.link.callbacks.functions;
        let function = functions.add(self.id, function);
        let request = Request::HostFunction { queue: self.id, function };
        let queued = self.queueing(|| self.link.ask(&request));
        // A function that has run before the process's end was queued.
        queued.or_else(|error| if functions.forget(function) { Err(error) } else { Ok(()) })
    }
}

impl Drop for IsolatedQueue {
    fn drop(&mut self) {
        if self.link.is_here() && self.link.is_alive() {
            // If the message cannot be sent, the process is gone, and the queue with it.
            let _ = self.link.post(&self.request(QueueCall::Destroy {}));
        }
    }
}
