//! Copies between a device and memory that this process does not reach: memory of the host alone,
//! or of a device of another process. A copy goes in pieces, each when the queue comes to it.

use std::cell::UnsafeCell;
use std::sync::Arc;

use longshore_plugin_api::{Backend, Error, ErrorCode, Result};

use super::Server;
use super::bulk::{self, failed, unreachable};
use super::functions::queue_function;
use super::objects::{Device, Queue};
use super::queues::{buffer, copy_in, copy_out};
use crate::plugin::channel::Channel;
use crate::plugin::protocol::{
    self, BulkCopy, CALL, Callback, Id, POST, Request, Transfer, encode,
};

/// Bytes of a piece in a message.
const PIECE: u64 = 1 << 20;

impl<B: Backend> Server<B> {
    /// Queues the pieces of a transfer. Does not block.
    pub(super) fn transfer(&self, peer: &Arc<dyn Channel>, transfer: &Transfer) -> Result<()> {
        let (queue, device) =
            (self.queues.get(transfer.queue)?, self.devices.get(transfer.device)?);
        let has_bulk = peer.bulk().is_some();
        let staging = match transfer.staging {
            Some((address, bytes)) => {
                self.memory.check(address, bytes)?;
                Some(Arc::new(Staging { address, bytes, memory: Origin::Shared }))
            }
            None if has_bulk && device.is_accessible => None,
            None if has_bulk => Some(Arc::new(Staging::for_transfers(&device, transfer.bytes)?)),
            None => Some(Arc::new(Staging::for_messages(transfer.bytes.min(PIECE))?)),
        };
        let (number, channel) = (transfer.transfer, Arc::clone(peer));
        let other = Other::Program { channel, transfer: number, has_bulk };
        Queued {
            other: Arc::new(other),
            queue: &queue,
            device: &device,
            address: transfer.address,
            bytes: transfer.bytes,
            to_device: transfer.to_device,
            staging: staging.clone(),
        }
        .all()?;
        let peer = Arc::clone(peer);
        queue_function::<B>(&queue.queue, move || {
            // The queue is done with the staging memory here.
            drop(staging);
            let _ = peer.post(POST, &encode(&Callback::Done { transfer: number }));
        })
    }
}

/// The other end of a copy.
pub(super) enum Other {
    /// Memory of the program.
    Program { channel: Arc<dyn Channel>, transfer: u64, has_bulk: bool },
    /// Memory of a device of another process.
    Neighbour { channel: Arc<dyn Channel>, device: Id, address: u64 },
}

impl Other {
    /// Gets bytes of the other end into memory of this process; into staging memory that both
    /// processes share, the other process copies them itself. Blocks.
    ///
    /// # Safety
    /// `to` has room for the bytes, and nothing else uses it.
    pub(super) unsafe fn fetch(
        &self,
        at: u64,
        bytes: u64,
        to: *mut u8,
        is_shared: bool,
    ) -> Result<()> {
        let (channel, transfer) = match self {
            Self::Program { channel, transfer, has_bulk: false } => (channel, *transfer),
            _ => {
                let channel = self.channel();
                let bulk = channel.bulk().ok_or_else(unreachable)?;
                let number = bulk.number();
                // SAFETY: guaranteed by the caller.
                let received = unsafe { bulk.receive(number, to, bytes as usize) };
                let mut received = received.map_err(failed)?;
                read_done(channel.call(None, CALL, &self.request(at, bytes, number, false)))?;
                return received.wait().map_err(failed);
            }
        };
        let request = encode(&Callback::Fetch { transfer, at, bytes, bulk: None });
        let reply = channel.call(None, CALL, &request).map_err(failed)?;
        let content = protocol::decode::<Result<serde_bytes::ByteBuf>>(&reply)??;
        if !is_shared {
            let bytes = content.len().min(bytes as usize);
            // SAFETY: guaranteed by the caller.
            unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), to, bytes) };
        }
        Ok(())
    }

    /// Puts bytes of this process at the other end. Blocks.
    ///
    /// # Safety
    /// The bytes at `from` can be read.
    unsafe fn store(&self, at: u64, bytes: u64, from: *const u8, is_shared: bool) -> Result<()> {
        let (channel, transfer) = match self {
            Self::Program { channel, transfer, has_bulk: false } => (channel, *transfer),
            _ => {
                let channel = self.channel();
                let bulk = channel.bulk().ok_or_else(unreachable)?;
                let number = bulk.number();
                let mut sent = None;
                let reply =
                    channel.call_while(CALL, &self.request(at, bytes, number, true), &mut || {
                        // SAFETY: guaranteed by the caller.
                        sent = Some(unsafe { bulk.send(number, from, bytes as usize) });
                    });
                let reply = read_done(reply);
                return match sent {
                    Some(Ok(mut sent)) => reply.and(sent.wait().map_err(failed)),
                    Some(Err(error)) => reply.and(Err(failed(error))),
                    None => reply,
                };
            }
        };
        let content = match is_shared {
            true => &[],
            // SAFETY: guaranteed by the caller.
            false => unsafe { std::slice::from_raw_parts(from, bytes as usize) },
        };
        let request = encode(&Callback::Store { transfer, at, bytes, content, bulk: None });
        read_done(channel.call(None, CALL, &request))
    }

    fn channel(&self) -> &Arc<dyn Channel> {
        match self {
            Self::Program { channel, .. } | Self::Neighbour { channel, .. } => channel,
        }
    }

    /// Returns the request to send or to receive a piece by the transfer `number`.
    fn request(&self, at: u64, bytes: u64, number: u64, to_other: bool) -> Vec<u8> {
        match self {
            Self::Program { transfer, .. } => {
                let (transfer, bulk) = (*transfer, Some(number));
                match to_other {
                    true => encode(&Callback::Store { transfer, at, bytes, content: &[], bulk }),
                    false => encode(&Callback::Fetch { transfer, at, bytes, bulk }),
                }
            }
            Self::Neighbour { device, address, .. } => encode(&Request::Bulk(BulkCopy {
                queue: None,
                device: *device,
                address: address + at,
                bytes,
                number,
                to_device: to_other,
            })),
        }
    }
}

/// Reads a reply that has nothing but success or an error, after any value.
fn read_done(reply: Result<Vec<u8>, crate::rpc::CallError>) -> Result<()> {
    let reply = reply.map_err(failed)?;
    // A successful reply begins with 0, whatever its value is.
    match reply.first() {
        Some(0) => Ok(()),
        _ => protocol::decode::<Result<()>>(&reply)?,
    }
}

/// A copy to queue in pieces.
pub(super) struct Queued<'a, B: Backend> {
    pub(super) other: Arc<Other>,
    pub(super) queue: &'a Arc<Queue<B>>,
    pub(super) device: &'a Arc<Device<B>>,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) to_device: bool,
    /// Memory for a piece; `None` if this process reaches the device's memory.
    pub(super) staging: Option<Arc<Staging>>,
}

impl<B: Backend> Queued<'_, B> {
    /// Queues all pieces. Does not block.
    ///
    /// # Errors
    /// The errors of the plugin.
    pub(super) fn all(&self) -> Result<()> {
        let mut at = 0;
        let piece = self.staging.as_ref().map_or(bulk::PIECE, |staging| staging.bytes);
        while at < self.bytes {
            let bytes = (self.bytes - at).min(piece);
            match (&self.staging, self.to_device) {
                (None, _) => self.piece_in_place(at, bytes)?,
                (Some(staging), true) => self.piece_to_device(at, bytes, staging)?,
                (Some(staging), false) => self.piece_from_device(at, bytes, staging)?,
            }
            at += bytes;
        }
        Ok(())
    }

    fn piece_in_place(&self, at: u64, bytes: u64) -> Result<()> {
        let (address, to_device) = (self.address + at, self.to_device);
        // SAFETY: the host guarantees the device's range, which this process reaches.
        self.function(move |other| unsafe {
            match to_device {
                true => other.fetch(at, bytes, address as *mut u8, false),
                false => other.store(at, bytes, address as *const u8, false),
            }
        })
    }

    fn piece_to_device(&self, at: u64, bytes: u64, staging: &Arc<Staging>) -> Result<()> {
        let place = Arc::clone(staging);
        // SAFETY: the staging memory has room for a piece, and only this function of the queue uses
        // it now.
        self.function(move |other| unsafe {
            other.fetch(at, bytes, place.address as *mut u8, place.is_shared())
        })?;
        let (to, from) = (self.address + at, staging.address);
        // SAFETY: the host guarantees the device's range; the staging memory lives until the
        // transfer is done.
        unsafe { copy_in(self.queue, &self.device.device, to, from, bytes, false) }
    }

    fn piece_from_device(&self, at: u64, bytes: u64, staging: &Arc<Staging>) -> Result<()> {
        let (from, to) = (self.address + at, staging.address);
        // SAFETY: the host guarantees the device's range; the staging memory lives until the
        // transfer is done.
        unsafe { copy_out(self.queue, &self.device.device, from, to, bytes, false)? };
        let place = Arc::clone(staging);
        // SAFETY: the staging memory has a piece, and only this function of the queue uses it now.
        self.function(move |other| unsafe {
            other.store(at, bytes, place.address as *const u8, place.is_shared())
        })
    }

    /// Queues an exchange with the other end. A failure becomes the queue's, unless the connection
    /// has ended or the program has given the transfer up: the result is not used then.
    fn function(&self, run: impl FnOnce(&Other) -> Result<()> + Send + 'static) -> Result<()> {
        let (other, queue) = (Arc::clone(&self.other), Arc::clone(self.queue));
        queue_function::<B>(&self.queue.queue, move || {
            let Err(error) = run(&other) else { return };
            match *other {
                Other::Program { transfer, .. } => log::debug!("transfer {transfer}: {error}"),
                Other::Neighbour { .. } => queue.defer(error),
            }
        })
    }
}

/// Memory for one piece at a time, used by the queue's functions and copies in order.
pub(super) struct Staging {
    pub(super) address: u64,
    pub(super) bytes: u64,
    memory: Origin,
}

/// The origin of staging memory.
enum Origin {
    /// Memory that this process shares with the program.
    Shared,
    /// Memory of this process.
    Own(#[allow(dead_code, reason = "it lives as long as the addresses")] Box<[UnsafeCell<u8>]>),
    /// Memory that goes back to the device's list.
    Device(Box<dyn Fn(u64)>),
}

// SAFETY: a queue is in order, so no two uses of the memory overlap in time.
unsafe impl Send for Staging {}
// SAFETY: as for `Send`.
unsafe impl Sync for Staging {}

impl Staging {
    /// Returns memory for pieces of a transfer with a device: page-locked, if the device has such
    /// memory.
    pub(super) fn for_transfers<B: Backend>(device: &Arc<Device<B>>, bytes: u64) -> Result<Self> {
        let Some(address) = device.take_staging() else {
            return Self::for_messages(bytes.min(bulk::PIECE));
        };
        let device = Arc::clone(device);
        let give_back = move |address| device.staging.lock().push(address);
        let memory = Origin::Device(Box::new(give_back));
        Ok(Self { address, bytes: bulk::PIECE, memory })
    }

    fn is_shared(&self) -> bool {
        matches!(self.memory, Origin::Shared)
    }

    pub(super) fn for_messages(bytes: u64) -> Result<Self> {
        let cells = buffer(bytes)?.into_iter().map(UnsafeCell::new);
        let own: Box<[_]> = cells.collect();
        let address = own.first().map_or(0, |first| first.get() as u64);
        match bytes {
            0 => Err(Error::new(ErrorCode::InvalidSize, "a transfer of 0 bytes")),
            _ => Ok(Self { address, bytes, memory: Origin::Own(own) }),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Origin::Device(give_back) = &self.memory {
            give_back(self.address);
        }
    }
}
