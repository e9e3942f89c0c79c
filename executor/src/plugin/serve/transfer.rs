//! Copies between a device and memory of the host alone, in pieces, each when the queue comes to
//! it.

use std::sync::Arc;

use longshore_plugin_api::{Backend, Error, ErrorCode, Result};

use super::Server;
use super::functions::queue_function;
use super::objects::{Device, Queue};
use super::queues::{buffer, copy_in, copy_out};
use crate::plugin::channel::Channel;
use crate::plugin::protocol::{self, CALL, Callback, POST, Transfer, encode};

/// Bytes of a piece in a message.
const PIECE: u64 = 1 << 20;

impl<B: Backend> Server<B> {
    /// Queues the pieces of a transfer. Does not block.
    pub(super) fn transfer(&self, peer: &Arc<dyn Channel>, transfer: &Transfer) -> Result<()> {
        let (queue, device) =
            (self.queues.get(transfer.queue)?, self.devices.get(transfer.device)?);
        let staging = match transfer.staging {
            Some((address, bytes)) => {
                self.memory.check(address, bytes)?;
                Staging { address, bytes, own: None }
            }
            None => Staging::for_messages(transfer.bytes.min(PIECE))?,
        };
        let (peer, staging) = (Arc::clone(peer), Arc::new(staging));
        Queued { peer, queue: &queue, device: &device, transfer, staging }.all()
    }
}

struct Queued<'a, B: Backend> {
    peer: Arc<dyn Channel>,
    queue: &'a Queue<B>,
    device: &'a Arc<Device<B>>,
    transfer: &'a Transfer,
    staging: Arc<Staging>,
}

impl<B: Backend> Queued<'_, B> {
    fn all(&self) -> Result<()> {
        let (mut at, total) = (0, self.transfer.bytes);
        while at < total {
            let bytes = (total - at).min(self.staging.bytes);
            match self.transfer.to_device {
                true => self.piece_to_device(at, bytes)?,
                false => self.piece_from_device(at, bytes)?,
            }
            at += bytes;
        }
        let (peer, staging) = (Arc::clone(&self.peer), Arc::clone(&self.staging));
        let transfer = self.transfer.transfer;
        queue_function::<B>(&self.queue.queue, move || {
            // The queue is done with the staging memory here.
            drop(staging);
            let _ = peer.post(POST, &encode(&Callback::Done { transfer }));
        })
    }

    fn piece_to_device(&self, at: u64, bytes: u64) -> Result<()> {
        let (peer, staging) = (Arc::clone(&self.peer), Arc::clone(&self.staging));
        let (transfer, to, from) =
            (self.transfer.transfer, self.transfer.address + at, staging.address);
        queue_function::<B>(&self.queue.queue, move || {
            let fetched = peer.call(None, CALL, &encode(&Callback::Fetch { transfer, at, bytes }));
            match fetched.map(|reply| read(&reply)) {
                Ok(Ok(content)) => staging.put(&content),
                // The connection has ended or the transfer was given up, so the result is not used.
                Ok(Err(error)) => log::debug!("transfer {transfer}: {error}"),
                Err(error) => log::debug!("transfer {transfer}: {error}"),
            }
        })?;
        // SAFETY: the host guarantees the device's range; the staging memory lives until the
        // transfer is done.
        unsafe { copy_in(self.queue, &self.device.device, to, from, bytes, false) }
    }

    fn piece_from_device(&self, at: u64, bytes: u64) -> Result<()> {
        let (peer, staging) = (Arc::clone(&self.peer), Arc::clone(&self.staging));
        let (transfer, from, to) =
            (self.transfer.transfer, self.transfer.address + at, staging.address);
        // SAFETY: the host guarantees the device's range; the staging memory lives until the
        // transfer is done.
        unsafe { copy_out(self.queue, &self.device.device, from, to, bytes, false)? };
        queue_function::<B>(&self.queue.queue, move || {
            let content = staging.own(bytes);
            let stored = Callback::Store { transfer, at, bytes, content };
            if let Err(error) = peer.call(None, CALL, &encode(&stored)) {
                log::debug!("transfer {transfer}: {error}");
            }
        })
    }
}

fn read(reply: &[u8]) -> Result<Vec<u8>> {
    protocol::decode::<Result<Vec<u8>>>(reply)?
}

/// Memory for one piece at a time, used by the queue's functions and copies in order.
struct Staging {
    address: u64,
    bytes: u64,
    /// Memory of this process, if no memory is shared.
    own: Option<Box<[std::cell::UnsafeCell<u8>]>>,
}

// SAFETY: a queue is in order, so no two uses of the memory overlap in time.
unsafe impl Send for Staging {}
// SAFETY: as for `Send`.
unsafe impl Sync for Staging {}

impl Staging {
    fn for_messages(bytes: u64) -> Result<Self> {
        let cells = buffer(bytes)?.into_iter().map(std::cell::UnsafeCell::new);
        let own: Box<[_]> = cells.collect();
        let address = own.first().map_or(0, |first| first.get() as u64);
        match bytes {
            0 => Err(Error::new(ErrorCode::InvalidSize, "a transfer of 0 bytes")),
            _ => Ok(Self { address, bytes, own: Some(own) }),
        }
    }

    /// Stores a piece from a message; shared memory holds it already.
    fn put(&self, content: &[u8]) {
        if self.own.is_some() {
            let bytes = content.len().min(self.bytes as usize);
            // SAFETY: the memory has at least `bytes` bytes, and only this function of the queue
            // uses it now.
            unsafe {
                std::ptr::copy_nonoverlapping(content.as_ptr(), self.address as *mut u8, bytes);
            }
        }
    }

    /// Returns a piece for a message: empty if the memory is shared.
    fn own(&self, bytes: u64) -> &[u8] {
        match self.own {
            // SAFETY: the memory has at least this many bytes, and only this function of the queue
            // uses it now.
            Some(_) => unsafe {
                std::slice::from_raw_parts(
                    self.address as *const u8,
                    bytes.min(self.bytes) as usize,
                )
            },
            None => &[],
        }
    }
}
