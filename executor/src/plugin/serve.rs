//! The executor's side: opens the plugin and executes the host's requests with it.

mod ahead;
mod bulk;
mod functions;
mod images;
mod launch;
mod library;
mod objects;
mod queues;
mod records;
mod requests;
mod shared;
mod signals;
mod transfer;

use std::ops::Deref;
use std::sync::Arc;

use longshore_plugin_api::remote::Remote;
use longshore_plugin_api::{Backend, Error};
use parking_lot::{Mutex, RwLock};

pub(super) use requests::encode_reply;

use super::channel::Channel;
use super::interface::messages::QueueCall;
use super::protocol::{self, CALL, Exchange, POST, Request};
use ahead::{Pushes, Wait};
pub use images::Images;
use images::Uploads;
use library::{ConnectedLibrary, OpenRequest};
use objects::{Event, Kernel, Module, Queue, Table};
use shared::SharedMemory;
use signals::Signals;

/// The state of this process for a host's requests. At most one plugin is open.
pub struct Server<B: Backend = Remote> {
    platform: RwLock<Option<SharedPlatform<B>>>,
    /// The function that opens a plugin; `None` if the server was given a platform.
    open: Option<Open<B>>,
    pub(super) devices: Table<objects::Device<B>>,
    pub(super) modules: Table<Module<B>>,
    pub(super) kernels: Table<Kernel<B>>,
    pub(super) queues: Table<Queue<B>>,
    pub(super) events: Table<Event<B>>,
    uploads: Uploads,
    /// The images that the process keeps, if it keeps any.
    images: Option<Arc<Images>>,
    signals: Arc<Signals>,
    pushes: Arc<Pushes>,
    /// The last request to a queue, if it was a wait for a signal.
    last_wait: Mutex<Option<Arc<Wait>>>,
    /// Whether channels may transfer memory of the devices at its addresses.
    are_transferable: bool,
    memory: SharedMemory,
    /// Held while a library is opened.
    opening: Mutex<()>,
}

/// A connected platform that the server shares with its other users.
pub type SharedPlatform<B> = Arc<dyn Deref<Target = <B as Backend>::Platform> + Send + Sync>;

type Open<B> = fn(&Arc<dyn Channel>, &OpenRequest<'_>) -> Result<ConnectedLibrary<B>, Error>;

impl Default for Server {
    fn default() -> Self {
        Self::new(None, Some(library::open))
    }
}

impl<B: Backend> Server<B> {
    /// Creates a server of a connected platform.
    pub fn for_platform(platform: SharedPlatform<B>) -> Self {
        Self::new(Some(platform), None)
    }

    /// Sets the images that the process keeps for its plugins.
    #[must_use]
    pub fn with_images(self, images: Arc<Images>) -> Self {
        Self { images: Some(images), ..self }
    }

    fn new(platform: Option<SharedPlatform<B>>, open: Option<Open<B>>) -> Self {
        Self {
            platform: RwLock::new(platform),
            open,
            devices: Table::default(),
            modules: Table::default(),
            kernels: Table::default(),
            queues: Table::default(),
            events: Table::default(),
            uploads: Uploads::default(),
            images: None,
            signals: Arc::default(),
            pushes: Arc::default(),
            last_wait: Mutex::default(),
            are_transferable: false,
            memory: SharedMemory::default(),
            opening: Mutex::default(),
        }
    }

    /// Sets whether channels may transfer memory of the devices at its addresses, although this
    /// process does not reach it.
    #[must_use]
    pub fn with_transferable_memory(self, are_transferable: bool) -> Self {
        Self { are_transferable, ..self }
    }

    /// Returns whether a channel may transfer the memory of a device at its addresses.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that is not open.
    pub fn is_transferable(&self, device: u64) -> Result<bool, Error> {
        self.devices.get(device).map(|device| device.is_transferable)
    }

    /// Copies memory of a device to memory of this process, or to the device. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that is not open; the errors of the plugin.
    ///
    /// # Safety
    /// Both ranges are valid during the call.
    pub unsafe fn copy_here(
        &self,
        device: u64,
        address: u64,
        here: *mut u8,
        bytes: u64,
        to_device: bool,
    ) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.copy_own(device, address, here as u64, bytes, to_device) }
    }

    /// Returns whether the server handles a method.
    pub fn has(method: u32) -> bool {
        matches!(method, CALL | POST)
    }

    /// Executes a request and returns the reply. Blocks as the plugin does.
    ///
    /// # Errors
    /// A text for a malformed request. The plugin's errors are replies.
    pub fn call(&self, peer: &Arc<dyn Channel>, argument: &[u8]) -> Result<Vec<u8>, String> {
        let request = protocol::decode(argument).map_err(|error| error.to_string())?;
        Ok(self.reply(peer, request))
    }

    /// Executes a request without a reply. The next call that waits for the queue reports a
    /// failure. `peer` returns the channel to the sender. Does not block.
    pub fn post(&self, peer: FindSender<'_>, argument: &[u8]) {
        let done = protocol::decode(argument).and_then(|request| self.take(peer, request));
        if let Err(error) = done {
            log::warn!("{error}");
        }
    }

    fn take(&self, peer: FindSender<'_>, request: Request<'_>) -> Result<(), Error> {
        let before = self.last_wait(&request);
        let (queue, result) = match request {
            Request::Launch(launch) if !launch.shape.wait => (launch.queue, self.launch(&launch)),
            Request::CopyIn { queue, device, address, content } => {
                (queue, self.copy_in_later(queue, device, address, content))
            }
            Request::WaitEvent { queue, event } => (queue, self.wait_event(queue, event)),
            Request::Signal { signal, failure } => {
                self.signals.arrive(signal, failure);
                return Ok(());
            }
            Request::Push(push) => {
                return self.push(&sender(peer)?, push);
            }
            Request::Announce { event, to, signal } => {
                return self.announce(&sender(peer)?, event, to, signal);
            }
            Request::AwaitSignal { queue, signal, from, to } => {
                let wait = |peer| self.await_signal(&peer, queue, signal, (from, to));
                (queue, sender(peer).and_then(wait))
            }
            Request::Exchange(exchange @ Exchange { queue: Some(queue), wait: false, .. }) => {
                let joins = self.joins(before.as_deref(), &exchange);
                let queued = || sender(peer).and_then(|peer| self.exchange(&peer, &exchange));
                (queue, if joins { Ok(()) } else { queued() })
            }
            Request::Copy(copy) if !copy.wait => (copy.queue, self.copy(&copy)),
            Request::Fill { queue, address, bytes, pattern, wait: false } => {
                (queue, self.fill(queue, address, bytes, pattern, false))
            }
            Request::Queue(queue, QueueCall::RecordEvent { event }) => {
                match self.post_queue(queue, QueueCall::RecordEvent { event }) {
                    Some(result) => {
                        let is_among_others =
                            || sender(peer).is_ok_and(|peer| peer.address().is_some());
                        if result.is_ok() && is_among_others() {
                            self.report_record(queue, event);
                        }
                        (queue, result)
                    }
                    None => return unanswered("a queue"),
                }
            }
            Request::Queue(queue, call) => match self.post_queue(queue, call) {
                Some(result) => (queue, result),
                None => return unanswered("a queue"),
            },
            Request::Event(event, call) => match self.post_event(event, call) {
                Some(result) => return result,
                None => return unanswered("an event"),
            },
            other => return unanswered(&format!("{other:?}")),
        };
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                self.queues.get(queue)?.defer(error);
                Ok(())
            }
        }
    }
}

/// A function that returns the channel to the sender of a message, if there still is one. Few
/// messages need the channel.
pub type FindSender<'a> = &'a dyn Fn() -> Option<Arc<dyn Channel>>;

fn sender(peer: FindSender<'_>) -> Result<Arc<dyn Channel>, Error> {
    peer().ok_or_else(bulk::unreachable)
}

/// Logs a request that needs a reply but came as a message without one.
fn unanswered(what: &str) -> Result<(), Error> {
    log::error!("a request that needs a reply came as a message without one: {what}");
    Ok(())
}
