//! Copies by transfers of a channel, and copies with devices of other processes.

use std::ffi::c_void;
use std::sync::Arc;

use longshore_plugin_api::{Error, ErrorCode, HostFunction, Queue, Result, abi};

use super::Isolated;
use super::link::Link;
use super::queue::IsolatedQueue;
use crate::plugin::protocol::{BulkCopy, Exchange, Id, Request};

/// Greatest number of bytes of a copy that goes in one message beside a channel with transfers.
pub(super) const SMALL: u64 = 8 << 10;

/// A copy that another process than that of the queue performs, or two other processes.
#[derive(Clone)]
pub(super) enum Apart {
    /// Between a device and memory of the program.
    Private { end: Remote, memory: u64, bytes: u64, to_device: bool },
    /// Between two devices.
    Between { to: Remote, from: Remote, bytes: u64 },
}

/// An end of a copy on a device.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) link: Arc<Link>,
    pub(super) device: Id,
    pub(super) address: u64,
}

impl Apart {
    /// Copies, outside of any queue's order. Blocks until the copy is done.
    ///
    /// # Errors
    /// Every error of the plugins and channels.
    pub(super) fn run(&self) -> Result<()> {
        match self {
            Self::Private { end, memory, bytes, to_device } => {
                let copy = BulkCopy {
                    queue: None,
                    device: end.device,
                    address: end.address,
                    bytes: *bytes,
                    number: 0,
                    to_device: *to_device,
                };
                // SAFETY: the caller that queues the copy guarantees the range.
                unsafe { end.link.copy_in_bulk(copy, *memory) }
            }
            Self::Between { to, from, bytes } => {
                let other = from.link.channel().address().ok_or_else(unreachable)?;
                to.link.ask(&Request::Exchange(Exchange {
                    queue: None,
                    device: to.device,
                    address: to.address,
                    bytes: *bytes,
                    other,
                    other_device: from.device,
                    other_address: from.address,
                    to_device: true,
                    wait: true,
                }))
            }
        }
    }
}

/// Returns the error of a copy between processes that cannot reach each other.
pub(super) fn unreachable() -> Error {
    let problem = "the copy's devices are in different processes: one was opened again after its process was gone";
    Error::new(ErrorCode::InvalidDevice, problem)
}

impl Link {
    /// Copies between a device and `memory` of the program by a transfer of the channel, whose
    /// number this function sets. Blocks until the copy is done.
    ///
    /// # Errors
    /// Every error of the plugin and the channel; `Unsupported` for a channel without transfers.
    ///
    /// # Safety
    /// The range at `memory` can be read or written during the call.
    pub(super) unsafe fn copy_in_bulk(&self, copy: BulkCopy, memory: u64) -> Result<()> {
        let channel = Arc::clone(self.channel());
        let bulk = channel.bulk().ok_or_else(unreachable)?;
        let copy = BulkCopy { number: bulk.number(), ..copy };
        let (bytes, request) = (copy.bytes as usize, Request::Bulk(copy));
        if !copy.to_device {
            // SAFETY: guaranteed by the caller. The transfer begins first, so that the data finds
            // its place.
            let received = unsafe { bulk.receive(copy.number, memory as *mut u8, bytes) };
            let mut received = received.map_err(|error| self.failed(error))?;
            self.ask_and_finish::<()>(&request)?;
            return received.wait().map_err(|error| self.failed(error));
        }
        let mut sent = None;
        let reply = self.ask_while::<()>(&request, || {
            // SAFETY: guaranteed by the caller.
            sent = Some(unsafe { bulk.send(copy.number, memory as *const u8, bytes) });
        });
        if reply.is_err() && self.is_gone() {
            self.callbacks.wait_until_finished();
        }
        match sent {
            Some(Ok(mut sent)) => {
                let sent = sent.wait().map_err(|error| self.failed(error));
                reply.and(sent)
            }
            Some(Err(error)) => reply.and(Err(self.failed(error))),
            None => reply,
        }
    }
}

impl IsolatedQueue {
    /// Copies without the queue's own process: now if `wait`, else by a function in the queue.
    ///
    /// # Errors
    /// Every error of the queue and, if `wait`, of the copy. Else the next waiting call of the
    /// queue returns the copy's error.
    pub(super) fn copy_apart(&self, copy: Apart, wait: bool) -> Result<()> {
        if wait {
            let before = Queue::<Isolated>::synchronize(self);
            let copied = copy.run();
            return before.and(copied);
        }
        let failure = Arc::clone(&self.failure);
        self.touches_host();
        self.queue_closure(move || {
            if let Err(error) = copy.run() {
                failure.lock().get_or_insert(error);
            }
        })
    }

    /// Queues a function of this process.
    ///
    /// # Errors
    /// Every error of the plugin and the channel; the function is dropped then.
    pub(super) fn queue_closure(&self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        type Boxed = Box<dyn FnOnce() + Send>;
        unsafe extern "C" fn call(context: *mut c_void) {
            // SAFETY: the context is the box made below, and the function is called once.
            let run = unsafe { Box::from_raw(context.cast::<Boxed>()) };
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                log::error!("a function of a proxy panicked in a queue");
            }
        }
        let boxed: Box<Boxed> = Box::new(Box::new(run));
        let context = Box::into_raw(boxed);
        // SAFETY: `call` may run once, on any thread, and does not unwind.
        let function =
            unsafe { HostFunction::from_raw(abi::HostFunction { context: context.cast(), call }) };
        let queued = Queue::<Isolated>::host_function(self, function);
        if queued.is_err() {
            // SAFETY: a refused function was not run and never will be.
            drop(unsafe { Box::from_raw(context) });
        }
        queued
    }
}
