//! Copies by a channel's transfers, with the host or with another process that serves plugins.

use std::sync::Arc;

use longshore_plugin_api::{Backend, Error, ErrorCode, Queue as _, Result};

use super::Server;
use super::functions::queue_function;
use super::objects::{Device, Queue};
use super::queues::{buffer, copy_in, copy_out};
use super::transfer::{Other, Queued, Staging};
use crate::plugin::channel::{self, Bulk, BulkTransfer, Channel};
use crate::plugin::protocol::{BulkCopy, Exchange, Id};
use crate::rpc::CallError;

/// Greatest number of bytes of a piece in staging memory.
pub(super) const PIECE: u64 = channel::PIECE as u64;

/// Returns the error of a copy without a way to the other process.
pub(super) fn unreachable() -> Error {
    Error::new(ErrorCode::InvalidDevice, "this process does not reach the other device's process")
}

/// Returns the error of a failed message or transfer.
pub(super) fn failed(error: CallError) -> Error {
    Error::new(ErrorCode::BackendFailure, error.to_string())
}

/// The queue and the device of a copy.
type Ends<B> = (Arc<Queue<B>>, Arc<Device<B>>);

impl<B: Backend> Server<B> {
    /// Copies between a device and the process that has sent the request. Blocks until the copy is
    /// done.
    ///
    /// # Errors
    /// The errors of the plugin and the channel. The data is taken from the channel even then.
    pub(super) fn copy_in_bulk(&self, peer: &Arc<dyn Channel>, copy: &BulkCopy) -> Result<()> {
        let bulk = peer.bulk().ok_or_else(unreachable)?;
        let ends = self.ends(copy.queue, copy.device);
        let (queue, device) = match ends {
            Ok(ends) => ends,
            Err(error) if copy.to_device => {
                discard(bulk, copy)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let before = queue.or_deferred(queue.queue.synchronize());
        let copied = match (device.is_transferable, copy.to_device) {
            (true, true) => {
                let into = copy.address as *mut u8;
                // SAFETY: the host guarantees the device's range, which the channel may write.
                let received = unsafe { bulk.receive(copy.number, into, copy.bytes as usize) };
                received.and_then(|mut received| received.wait()).map_err(failed)
            }
            (true, false) => {
                let from = copy.address as *const u8;
                // SAFETY: the host guarantees the device's range, which the channel may read.
                let sent = unsafe { bulk.send(copy.number, from, copy.bytes as usize) };
                sent.and_then(|mut sent| sent.wait()).map_err(failed)
            }
            (false, true) => stage_in(bulk, copy, &queue, &device),
            (false, false) => stage_out(bulk, copy, &queue, &device),
        };
        if copy.queue.is_none() {
            device.keep_own(queue);
        }
        before.and(copied)
    }

    /// Queues the exchange of data between a device and a device of another process; blocks only if
    /// the exchange is to be waited for.
    ///
    /// # Errors
    /// The errors of the plugin, and of the channel to the other process.
    pub(super) fn exchange(&self, peer: &Arc<dyn Channel>, exchange: &Exchange) -> Result<()> {
        let channel = peer.neighbour(exchange.other).ok_or_else(unreachable)?;
        let (queue, device) = self.ends(exchange.queue, exchange.device)?;
        let other = Other::Neighbour {
            channel,
            device: exchange.other_device,
            address: exchange.other_address,
        };
        let staging = match device.is_accessible || exchange.bytes == 0 {
            true => None,
            false => Some(Arc::new(Staging::for_transfers(&device, exchange.bytes)?)),
        };
        Queued {
            other: Arc::new(other),
            queue: &queue,
            device: &device,
            address: exchange.address,
            bytes: exchange.bytes,
            to_device: exchange.to_device,
            staging: staging.clone(),
        }
        .all()?;
        if staging.is_some() {
            // The last copy of the queue reads the staging memory until here.
            queue_function::<B>(&queue.queue, move || drop(staging))?;
        }
        if !exchange.wait {
            return Ok(());
        }
        let done = queue.or_deferred(queue.queue.synchronize());
        if exchange.queue.is_none() {
            device.keep_own(queue);
        }
        done
    }

    /// Copies between memory of a device and of this process in a queue of its own. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` for a device that is not open; the errors of the plugin.
    ///
    /// # Safety
    /// Both ranges are valid during the call.
    pub(super) unsafe fn copy_own(
        &self,
        device: Id,
        address: u64,
        here: u64,
        bytes: u64,
        to_device: bool,
    ) -> Result<()> {
        let (queue, device) = self.ends(None, device)?;
        // SAFETY: guaranteed by the caller.
        let copied = unsafe {
            match to_device {
                true => copy_in(&queue, &device.device, address, here, bytes, true),
                false => copy_out(&queue, &device.device, address, here, bytes, true),
            }
        };
        device.keep_own(queue);
        copied
    }

    fn ends(&self, queue: Option<Id>, device: Id) -> Result<Ends<B>> {
        let device = self.devices.get(device)?;
        let queue = match queue {
            Some(queue) => self.queues.get(queue)?,
            None => Arc::new(Queue::new(device.own_queue()?, &device)),
        };
        Ok((queue, device))
    }
}

/// Receives data that has no place, so that its sender does not wait.
fn discard(bulk: &dyn Bulk, copy: &BulkCopy) -> Result<()> {
    let mut space = buffer(copy.bytes.min(PIECE))?;
    let mut at = 0;
    while at < copy.bytes {
        let bytes = (copy.bytes - at).min(PIECE);
        // SAFETY: the buffer has room for a piece.
        let received = unsafe { bulk.receive(copy.number, space.as_mut_ptr(), bytes as usize) };
        received.and_then(|mut received| received.wait()).map_err(failed)?;
        at += bytes;
    }
    Ok(())
}

/// Copies to the device in pieces: while one is copied to the device, the next is received.
fn stage_in<B: Backend>(
    bulk: &dyn Bulk,
    copy: &BulkCopy,
    queue: &Queue<B>,
    device: &Device<B>,
) -> Result<()> {
    let pieces = match (StagingPiece::take(device), StagingPiece::take(device)) {
        (Ok(one), Ok(other)) => [one, other],
        (Err(error), _) | (_, Err(error)) => {
            discard(bulk, copy)?;
            return Err(error);
        }
    };
    let size = |at: u64| copy.bytes.saturating_sub(at).min(PIECE);
    let receive = |at: u64, piece: &StagingPiece<'_, B>| {
        // SAFETY: the piece has room, and nothing else uses it.
        unsafe { bulk.receive(copy.number, piece.address as *mut u8, size(at) as usize) }
    };
    let (mut at, mut index, mut result) = (0, 0, Ok(()));
    let mut under_way = Some(receive(0, &pieces[0]));
    while let Some(received) = under_way.take() {
        received.and_then(|mut received| received.wait()).map_err(failed)?;
        let next = at + size(at);
        if next < copy.bytes {
            under_way = Some(receive(next, &pieces[1 - index]));
        }
        let (to, from) = (copy.address + at, pieces[index].address);
        // SAFETY: the host guarantees the device's range; the piece stays until the copy is done.
        let copied = unsafe { copy_in(queue, &device.device, to, from, size(at), true) };
        result = result.and(copied);
        (at, index) = (next, 1 - index);
    }
    result
}

/// Copies from the device in pieces: while one is sent, the next is copied from the device.
fn stage_out<B: Backend>(
    bulk: &dyn Bulk,
    copy: &BulkCopy,
    queue: &Queue<B>,
    device: &Device<B>,
) -> Result<()> {
    let pieces = [StagingPiece::take(device)?, StagingPiece::take(device)?];
    let (mut at, mut index) = (0, 0);
    let mut under_way: Option<Box<dyn BulkTransfer + '_>> = None;
    while at < copy.bytes {
        let (bytes, piece) = ((copy.bytes - at).min(PIECE), &pieces[index]);
        // SAFETY: as in `stage_in`.
        unsafe {
            copy_out(queue, &device.device, copy.address + at, piece.address, bytes, true)?;
        }
        if let Some(mut sent) = under_way.take() {
            sent.wait().map_err(failed)?;
        }
        // SAFETY: the piece is not changed before the transfer was waited for.
        let sent = unsafe { bulk.send(copy.number, piece.address as *const u8, bytes as usize) };
        under_way = Some(sent.map_err(failed)?);
        (at, index) = (at + bytes, 1 - index);
    }
    under_way.map_or(Ok(()), |mut sent| sent.wait().map_err(failed))
}

/// Memory for a piece, page-locked for the device where it can be.
struct StagingPiece<'a, B: Backend> {
    device: &'a Device<B>,
    address: u64,
    /// Memory of this process, if the device has no host memory.
    own: Option<Vec<u8>>,
}

impl<'a, B: Backend> StagingPiece<'a, B> {
    fn take(device: &'a Device<B>) -> Result<Self> {
        if let Some(address) = device.take_staging() {
            return Ok(Self { device, address, own: None });
        }
        let mut own = buffer(PIECE)?;
        Ok(Self { device, address: own.as_mut_ptr() as u64, own: Some(own) })
    }
}

impl<B: Backend> Drop for StagingPiece<'_, B> {
    fn drop(&mut self) {
        if self.own.is_none() {
            self.device.staging.lock().push(self.address);
        }
    }
}
