//! The executor's side: opens the plugin and executes the host's requests with it.

mod functions;
mod images;
mod launch;
mod library;
mod objects;
mod queues;
mod requests;
mod shared;
mod transfer;

use std::sync::Arc;

use longshore_plugin_api::Error;
use longshore_plugin_api::remote::RemotePlatform;
use parking_lot::{Mutex, RwLock};

pub(super) use requests::encode_reply;

use super::protocol::{self, CALL, POST, Request};
use crate::rpc::Peer;
use images::Uploads;
use objects::{Event, Kernel, Module, Queue, Table};
use shared::SharedMemory;

/// The state of this process for a host's requests. At most one plugin is open.
#[derive(Default)]
pub(crate) struct Server {
    platform: RwLock<Option<Arc<RemotePlatform>>>,
    pub(super) devices: Table<objects::Device>,
    pub(super) modules: Table<Module>,
    pub(super) kernels: Table<Kernel>,
    pub(super) queues: Table<Queue>,
    pub(super) events: Table<Event>,
    uploads: Uploads,
    memory: SharedMemory,
    /// Held while a library is opened.
    opening: Mutex<()>,
}

impl Server {
    /// Returns whether the server handles a method.
    pub(crate) fn has(method: u32) -> bool {
        matches!(method, CALL | POST)
    }

    /// Executes a request and returns the reply. Blocks as the plugin does.
    ///
    /// # Errors
    /// A text for a malformed request. The plugin's errors are replies.
    pub(crate) fn call(&self, peer: &Arc<Peer>, argument: &[u8]) -> Result<Vec<u8>, String> {
        let request = protocol::decode(argument).map_err(|error| error.to_string())?;
        Ok(self.reply(peer, request))
    }

    /// Executes a request without a reply. The next call that waits for the queue reports a
    /// failure. Does not block.
    pub(crate) fn post(&self, argument: &[u8]) {
        let done = protocol::decode(argument).and_then(|request| self.take(request));
        if let Err(error) = done {
            log::warn!("{error}");
        }
    }

    fn take(&self, request: Request<'_>) -> Result<(), Error> {
        let (queue, result) = match request {
            Request::Launch(launch) if !launch.shape.wait => (launch.queue, self.launch(&launch)),
            Request::Copy(copy) if !copy.wait => (copy.queue, self.copy(&copy)),
            Request::Fill { queue, address, bytes, pattern, wait: false } => {
                (queue, self.fill(queue, address, bytes, pattern, false))
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

/// Logs a request that needs a reply but came as a message without one.
fn unanswered(what: &str) -> Result<(), Error> {
    log::error!("a request that needs a reply came as a message without one: {what}");
    Ok(())
}
