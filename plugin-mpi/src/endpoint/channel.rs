//! The messages to a plugin of another process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use longshore_executor::plugin::{Address, Bulk, BulkTransfer, Channel, Collective, Digest};
use longshore_executor::rpc::{CallError, EndReason};

use longshore_plugin_api::Error;

use super::Endpoint;

/// The messages between this process and a plugin on a node; on the node, the messages to the
/// program about that plugin.
pub struct MpiChannel {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) rank: i32,
    pub(super) plugin: u16,
}

impl MpiChannel {
    /// Returns the other process and the plugin.
    pub fn to(&self) -> Address {
        Address { rank: self.rank as u32, plugin: u32::from(self.plugin) }
    }
}

impl MpiChannel {
    /// Returns a number for a transfer.
    pub(crate) fn new_number(&self) -> u64 {
        self.number()
    }

    /// Receives memory by a transfer. Blocks until it is there.
    ///
    /// # Errors
    /// The loss of the process, and a failure of MPI.
    ///
    /// # Safety
    /// The memory can be written during the call.
    pub(crate) unsafe fn receive_now(
        &self,
        number: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), CallError> {
        // SAFETY: guaranteed by the caller.
        let mut received: Box<dyn BulkTransfer + '_> = unsafe { self.receive(number, to, bytes)? };
        received.wait()
    }
}

impl Channel for MpiChannel {
    fn call(
        &self,
        limit: Option<Duration>,
        method: u32,
        argument: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        self.endpoint.call((self.rank, self.plugin), method, argument, limit, &mut || {})
    }

    fn call_while(
        &self,
        method: u32,
        argument: &[u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, CallError> {
        self.endpoint.call((self.rank, self.plugin), method, argument, None, meanwhile)
    }

    fn post(&self, method: u32, argument: &[u8]) -> Result<(), CallError> {
        self.endpoint.post((self.rank, self.plugin), method, argument)
    }

    fn most_in_post(&self) -> usize {
        super::MOST_CONTENT
    }

    fn ended(&self) -> Option<EndReason> {
        self.endpoint.check(self.rank).err()
    }

    fn end(&self, why: EndReason) {
        self.endpoint.lose(self.rank, why);
    }

    fn when_ended(self: Arc<Self>, then: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        self.endpoint.when_lost(self.rank, self.plugin, then);
        Ok(())
    }

    fn is_here(&self) -> bool {
        super::is_here()
    }

    fn bulk(&self) -> Option<&dyn Bulk> {
        Some(self)
    }

    fn neighbour(&self, at: Address) -> Option<Arc<dyn Channel>> {
        let (rank, plugin) = (i32::try_from(at.rank).ok()?, u16::try_from(at.plugin).ok()?);
        self.endpoint.channel(rank, plugin)
    }

    fn keep_image(&self, image: &[u8], is_gone: bool) -> Option<Result<Digest, CallError>> {
        let kept = self.endpoint.service.keep_image(self.rank, image, is_gone)?;
        Some(kept.map_err(CallError::Failed))
    }

    fn collective(&self, operation: &Collective<'_>) -> Option<Result<(), Error>> {
        self.endpoint.service.collective(operation)
    }

    fn address(&self) -> Option<Address> {
        Some(self.to())
    }
}
