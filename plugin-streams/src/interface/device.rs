//! Implementation of the plugin interface for devices.

use super::Complete;
use crate::call::{Call, Code};
use crate::device::StreamDevice;
use crate::driver::{Context, Driver};
use crate::event::StreamEvent;
use crate::kernel::StreamKernel;
use crate::module::StreamModule;
use crate::queue::StreamQueue;
use longshore_plugin_api::{
    Acceptance, CodeTarget, Device, Error, ErrorCode, ImageBytes, ImageEntry, Loading, MemoryKind,
    Result, Span,
};

impl<B: Complete> Device<B> for StreamDevice<B> {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(match B::suitability(image, &self.core) {
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

    fn load(&self, image: ImageBytes, _: Loading) -> Result<StreamModule<B>> {
        StreamModule::load(&self.core, image)
    }

    fn create_queue(&self) -> Result<StreamQueue<B>> {
        StreamQueue::new(&self.core)
    }

    fn create_event(&self, timing: bool) -> Result<StreamEvent<B::Driver>> {
        self.core.refuse_if_lost()?;
        Ok(StreamEvent::new(&self.core, timing))
    }

    /// Waits for the work of dropped queues, then releases the context.
    fn close(self) -> Result<()> {
        let core = self.core;
        core.workers.await_none();
        // Waits for the streams alone: other parts of the process may use the context.
        let streams = core.idle_streams();
        let idle = core.end("waiting for the work of dropped queues", |driver| {
            let wait = |stream| {
                // SAFETY: the stream is live.
                unsafe { driver.synchronize_stream(stream) }
            };
            streams.into_iter().chain([core.service()]).map(wait).fold(Ok(()), Call::and)
        });
        drop(core);
        idle
    }

    /// Pins memory of the program. Memory that another part of the process has registered with the
    /// driver keeps that registration.
    fn pin(&self, range: Span) -> Result<u64> {
        self.core.memory.pin(&self.core, range)
    }

    fn unpin(&self, address: u64) -> Result<()> {
        self.core.memory.unpin(&self.core, address)
    }

    fn driver_device(&self) -> Result<u64> {
        Ok(self.core.ordinal() as u64)
    }

    fn driver_context(&self) -> Result<u64> {
        Ok(self.core.context().handle())
    }

    fn can_access(&self, peer: &StreamDevice<B>) -> Result<bool> {
        let (ours, theirs) = (self.core.ordinal(), peer.core.ordinal());
        if ours == theirs {
            return Ok(true);
        }
        let mut can = false;
        self.core.call("querying peer access", |driver| {
            // SAFETY: the driver knows both devices.
            unsafe { driver.can_access(&mut can, ours, theirs) }
        })?;
        Ok(can)
    }

    fn enable_access(&self, peer: &StreamDevice<B>) -> Result<()> {
        if !self.can_access(peer)? {
            let (ours, theirs) = (&self.core.facts().name, &peer.core.facts().name);
            let message = format!("'{ours}' cannot reach memory of '{theirs}'");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        if self.core.ordinal() == peer.core.ordinal() {
            return Ok(());
        }
        let enabled = self.core.try_call(|driver| {
            // SAFETY: both contexts are live, and this device's context is current.
            unsafe { driver.enable_access(peer.core.context()) }
        });
        match enabled {
            Err(failure) if failure.is(Code::PEER_ACCESS_ALREADY_ENABLED) => {}
            enabled => enabled.map_err(|failure| {
                self.core.failed_with(&peer.core, "enabling peer access", failure)
            })?,
        }
        peer.core.memory.allow(&peer.core, self.core.ordinal())
    }

    fn optimal_group_items(
        &self,
        kernel: &StreamKernel<B::Driver>,
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        kernel.on(&self.core)?.optimal_group_items(dynamic_shared_bytes)
    }

    fn max_cooperative_groups(
        &self,
        kernel: &StreamKernel<B::Driver>,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        kernel.on(&self.core)?.most_cooperative_groups(items, dynamic_shared_bytes)
    }

    fn score(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        Ok(B::score(entry, &self.core))
    }

    fn code_target(&self) -> Result<CodeTarget> {
        Ok(B::code_target(&self.core))
    }
}
