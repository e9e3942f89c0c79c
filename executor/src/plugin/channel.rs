//! The messages and transfers between a proxy and the process that runs its plugin.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use longshore_plugin_api::{
    CollectiveElement, CollectiveKind, CollectiveOperation, CollectiveRoot, Error,
};

use super::protocol::Digest;
use crate::rpc::{CallError, EndReason, Peer};

/// One end of the messages between a host and a plugin's process. Either end calls the other.
///
/// Messages arrive in the order in which they were sent, each post before any later call. Any
/// thread may use a channel.
pub trait Channel: Send + Sync + 'static {
    /// Calls the other side and waits for the reply, for at most `limit`. Blocks. Without a reply
    /// by then the channel is given up.
    ///
    /// # Errors
    /// The other side's text, and the reason why there will be no reply.
    fn call(
        &self,
        limit: Option<Duration>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, CallError>;

    /// Sends a call, runs `meanwhile`, and then waits for the reply. Blocks.
    ///
    /// # Errors
    /// As for [`Channel::call`].
    fn call_while(
        &self,
        method: u32,
        argument: &[u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, CallError>;

    /// Sends a message of at most [`Channel::most_in_post`] bytes, without a reply. Blocks while
    /// the other side accepts no message.
    ///
    /// # Errors
    /// [`CallError::TooLarge`], and the reason for the end of the channel.
    fn post(&self, method: u32, argument: &[u8]) -> Result<(), CallError>;

    /// Returns the greatest number of bytes of a message without a reply.
    fn most_in_post(&self) -> usize;

    /// Returns the reason for the end of the channel, if it has ended.
    fn ended(&self) -> Option<EndReason>;

    /// Ends the channel for the reason `why`, unless it has ended. Does not block.
    fn end(&self, why: EndReason);

    /// Has a thread run `then` when the channel has ended. Does not block.
    ///
    /// # Errors
    /// The system's error if no thread can be started.
    fn when_ended(self: Arc<Self>, then: Box<dyn FnOnce() + Send>) -> io::Result<()>;

    /// Returns whether this process opened the channel. A forked child did not.
    fn is_here(&self) -> bool;

    /// Returns the file of the memory that both sides share, if there is one.
    fn memory(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the transfers of bulk data, if the channel has transfers beside its messages.
    fn bulk(&self) -> Option<&dyn Bulk> {
        None
    }

    /// Returns the channel from the other side to the process at another address, for data that
    /// goes there directly.
    fn neighbour(&self, _at: Address) -> Option<Arc<dyn Channel>> {
        None
    }

    /// Ensures that the other side keeps an image, and returns its digest; `is_gone` if the other
    /// side has just denied that. `None` if it keeps no images. Blocks.
    fn keep_image(&self, _image: &[u8], _is_gone: bool) -> Option<Result<Digest, CallError>> {
        None
    }

    /// Performs an operation over the memory of devices of several processes, and blocks until all
    /// have their results; `None` if this channel cannot.
    fn collective(&self, _operation: &Collective<'_>) -> Option<Result<(), Error>> {
        None
    }

    /// Returns the address of the other side, if processes beside this one can reach it.
    fn address(&self) -> Option<Address> {
        None
    }
}

/// The place of a process among processes that all reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Address {
    /// The rank of the process.
    pub rank: u32,
    /// The number of the plugin in that process.
    pub plugin: u32,
}

/// A collective operation of devices behind channels: see
/// [`CollectiveRequest`](longshore_plugin_api::CollectiveRequest).
#[derive(Debug)]
pub struct Collective<'a> {
    /// The kind of the operation.
    pub kind: CollectiveKind,
    /// The member with the data or the result.
    pub root: CollectiveRoot,
    /// The elements and the operation of a reduction.
    pub reduction: Option<(CollectiveElement, CollectiveOperation)>,
    /// Number of bytes of each member.
    pub bytes: u64,
    /// The members.
    pub members: &'a [RemoteMember],
}

/// A member of a collective operation.
#[derive(Debug, Clone, Copy)]
pub struct RemoteMember {
    /// The process and plugin of the device.
    pub at: Address,
    /// The number of the device in that process.
    pub device: u64,
    /// Address of the memory that is read.
    pub source: u64,
    /// Address of the memory that is written.
    pub destination: u64,
}

/// Bytes of the pieces in which each transfer goes. A transfer can be received as several transfers
/// of the same number, each of whole pieces but the last.
pub const PIECE: usize = 4 << 20;

/// Greatest number of bytes of a transfer that is sent from a copy of the data.
pub const MOST_IN_COPY: usize = 64 << 10;

/// Transfers of bulk data between the two processes of a channel, beside its messages.
pub trait Bulk: Send + Sync {
    /// Returns a number for a transfer, which no other transfer under way has on either side.
    fn number(&self) -> u64;

    /// Starts to send memory by the transfer `number` of either side. Does not block.
    ///
    /// # Errors
    /// The reason for the end of the channel, and a failure of the network.
    ///
    /// # Safety
    /// The memory can be read until the transfer is dropped.
    unsafe fn send(
        &self,
        number: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<Box<dyn BulkTransfer + '_>, CallError>;

    /// Sends at most [`MOST_IN_COPY`] bytes as the transfer `number` of either side. Does not wait
    /// for the other side to receive them.
    ///
    /// # Errors
    /// As for [`Bulk::send`].
    fn send_copy(&self, number: u64, content: Vec<u8>) -> Result<(), CallError>;

    /// Starts to receive into memory, as [`Bulk::send`] sends. Both sides name the same number of
    /// bytes.
    ///
    /// # Errors
    /// As for [`Bulk::send`].
    ///
    /// # Safety
    /// The memory can be written until the transfer is dropped.
    unsafe fn receive(
        &self,
        number: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<Box<dyn BulkTransfer + '_>, CallError>;
}

/// A transfer under way. Dropping it gives the transfer up, and waits until its memory is no longer
/// touched.
pub trait BulkTransfer {
    /// Makes progress, and returns whether the transfer is done. Does not block.
    ///
    /// # Errors
    /// The reason for the end of the channel, and a failure of the network.
    fn is_done(&mut self) -> Result<bool, CallError>;

    /// Blocks until the transfer is done, or `is_over` returns true: it is called again after each
    /// message that has come. Returns whether the transfer is done.
    ///
    /// # Errors
    /// As for [`BulkTransfer::is_done`].
    fn wait_unless(&mut self, is_over: &mut dyn FnMut() -> bool) -> Result<bool, CallError>;

    /// Blocks until the transfer is done.
    ///
    /// # Errors
    /// As for [`BulkTransfer::is_done`].
    fn wait(&mut self) -> Result<(), CallError>;
}

impl Channel for Peer {
    fn call(
        &self,
        limit: Option<Duration>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        self.call_within(limit, method, argument)
    }

    fn call_while(
        &self,
        method: u32,
        argument: &[u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, CallError> {
        self.exchange_while(method, argument, meanwhile)
    }

    fn post(&self, method: u32, argument: &[u8]) -> Result<(), CallError> {
        Peer::post(self, method, argument)
    }

    fn most_in_post(&self) -> usize {
        Peer::MAX_POST
    }

    fn ended(&self) -> Option<EndReason> {
        Peer::ended(self)
    }

    fn end(&self, why: EndReason) {
        Peer::end(self, why);
    }

    fn when_ended(self: Arc<Self>, then: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let thread = thread::Builder::new().name("longshore-end".to_owned());
        let wait = move || {
            self.wait_for_end();
            then();
        };
        thread.spawn(wait).map(drop)
    }

    fn is_here(&self) -> bool {
        Peer::is_here(self)
    }

    fn memory(&self) -> Option<BorrowedFd<'_>> {
        Peer::memory(self)
    }
}

/// The handlers of one side of a channel for the other side's calls and posts: see
/// [`Service`](crate::rpc::Service).
pub trait Handler: Send + Sync + 'static {
    /// Handles a call and returns the reply. May block, and may call back.
    ///
    /// # Errors
    /// A text, which becomes the caller's [`CallError::Failed`].
    fn call(&self, method: u32, argument: &[u8]) -> Result<Vec<u8>, String>;

    /// Handles a message without a reply. Must not block.
    fn post(&self, method: u32, argument: &[u8]);
}
