//! Memory of the program that copies under way read or write. The executor never learns an address
//! of that memory. It requests pieces by the copy's number, and only while the copy is under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;

use super::window::Staging;
use crate::plugin::channel::{self, Bulk};

/// The copies under way.
#[derive(Default)]
pub(super) struct Transfers {
    all: Mutex<HashMap<u64, Arc<Mutex<Option<Memory>>>>>,
    next: AtomicU64,
}

/// Memory that the program keeps in place until the copy is done or the memory is taken back.
pub(super) struct Memory {
    address: u64,
    bytes: u64,
    is_read: bool,
    /// Shared memory for a piece.
    staging: Option<Staging>,
}

impl Memory {
    /// # Safety
    /// The caller guarantees that the range can be read or written until it was taken back or the
    /// copy is done.
    pub(super) unsafe fn new(
        address: u64,
        bytes: u64,
        is_read: bool,
        staging: Option<Staging>,
    ) -> Self {
        Self { address, bytes, is_read, staging }
    }

    fn place(&self, at: u64, bytes: u64, is_read: bool) -> Result<*mut u8> {
        let fits = is_read == self.is_read && bytes <= self.bytes && at <= self.bytes - bytes;
        match fits {
            true => Ok((self.address + at) as *mut u8),
            false => Err(wrong(format!("{bytes} bytes at {at} of a copy of {}", self.bytes))),
        }
    }

    fn staging(&self, bytes: u64) -> Result<Option<*mut u8>> {
        match &self.staging {
            Some(staging) if bytes > staging.bytes() => Err(wrong(format!(
                "a piece of {bytes} bytes in staging memory of {}",
                staging.bytes()
            ))),
            staging => Ok(staging.as_ref().map(|staging| staging.address() as *mut u8)),
        }
    }
}

impl Transfers {
    /// Adds memory and returns the number of its copy.
    pub(super) fn add(&self, memory: Memory) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.lock().insert(number, Arc::new(Mutex::new(Some(memory))));
        number
    }

    /// Takes memory back. Blocks while a piece is copied; afterwards no piece is copied.
    pub(super) fn take_back(&self, number: u64) {
        let found = self.all.lock().remove(&number);
        if let Some(memory) = found {
            drop(memory.lock().take());
        }
    }

    /// Takes memory back when the queue may still have a part of the copy: its staging memory is
    /// not used again.
    pub(super) fn give_up(&self, number: u64) {
        let found = self.all.lock().remove(&number);
        let memory = found.and_then(|memory| memory.lock().take());
        if let Some(staging) = memory.and_then(|memory| memory.staging) {
            staging.give_up();
        }
    }

    /// Takes all memory back.
    pub(super) fn take_all_back(&self) {
        let all: Vec<_> = self.all.lock().drain().collect();
        for (_, memory) in all {
            drop(memory.lock().take());
        }
    }

    /// Copies a piece out of the program's memory, into the staging memory or into the reply.
    ///
    /// # Errors
    /// `InvalidArgument` for a range outside a copy under way.
    pub(super) fn fetch(&self, number: u64, at: u64, bytes: u64) -> Result<Vec<u8>> {
        self.with(number, |memory| {
            let (from, staging) = (memory.place(at, bytes, true)?, memory.staging(bytes)?);
            let bytes = bytes as usize;
            // SAFETY: the range is part of memory that stays in place until it is taken back, and
            // taking it back waits for the lock held here. The staging memory has this size, and
            // only this copy uses it.
            unsafe {
                match staging {
                    Some(to) => {
                        std::ptr::copy_nonoverlapping(from, to, bytes);
                        Ok(Vec::new())
                    }
                    None if bytes > MOST_IN_MESSAGE => {
                        Err(wrong(format!("a piece of {bytes} bytes in a message")))
                    }
                    None => Ok(std::slice::from_raw_parts(from, bytes).to_vec()),
                }
            }
        })
    }

    /// Sends a piece of the program's memory by a transfer of the channel. Blocks until it is sent.
    ///
    /// # Errors
    /// As for [`Transfers::fetch`], and every error of the channel.
    pub(super) fn send(
        &self,
        number: u64,
        at: u64,
        bytes: u64,
        (bulk, transfer): (&dyn Bulk, u64),
    ) -> Result<()> {
        self.with(number, |memory| {
            let from = memory.place(at, bytes, true)?;
            // SAFETY: the range is part of memory that stays in place until it is taken back, and
            // taking it back waits for the lock held here.
            let sent = unsafe { bulk.send(transfer, from.cast_const(), bytes as usize) };
            sent.and_then(|mut sent| sent.wait()).map_err(|error| wrong(error.to_string()))
        })
    }

    /// Receives a piece of the program's memory by a transfer of the channel. Blocks until it is
    /// received. A piece without memory is received and dropped, so that the sender does not wait.
    ///
    /// # Errors
    /// As for [`Transfers::send`].
    pub(super) fn receive(
        &self,
        number: u64,
        at: u64,
        bytes: u64,
        (bulk, transfer): (&dyn Bulk, u64),
    ) -> Result<()> {
        let receive = |to: *mut u8| {
            // SAFETY: as in `send`, or memory of this function.
            let received = unsafe { bulk.receive(transfer, to, bytes as usize) };
            received.and_then(|mut received| received.wait()).map_err(|e| wrong(e.to_string()))
        };
        let mut is_received = false;
        let stored = self.with(number, |memory| {
            let to = memory.place(at, bytes, false)?;
            is_received = true;
            receive(to)
        });
        if !is_received && bytes <= MOST_IN_PIECE {
            receive(vec![0; bytes as usize].as_mut_ptr())?;
        }
        stored
    }

    /// Copies a piece into the program's memory, out of the staging memory or out of `content`.
    ///
    /// # Errors
    /// As for [`Transfers::fetch`].
    pub(super) fn store(&self, number: u64, at: u64, bytes: u64, content: &[u8]) -> Result<()> {
        self.with(number, |memory| {
            let (to, staging) = (memory.place(at, bytes, false)?, memory.staging(bytes)?);
            if staging.is_none() && content.len() as u64 != bytes {
                return Err(wrong(format!("a piece of {bytes} bytes with {}", content.len())));
            }
            let from = staging.map_or(content.as_ptr(), |staging| staging.cast_const());
            // SAFETY: as in `fetch`.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes as usize) };
            Ok(())
        })
    }

    fn with<T>(&self, number: u64, copy: impl FnOnce(&Memory) -> Result<T>) -> Result<T> {
        let absent = || wrong(format!("copy {number} is not under way"));
        let found = self.all.lock().get(&number).cloned().ok_or_else(absent)?;
        let memory = found.lock();
        copy(memory.as_ref().ok_or_else(absent)?)
    }
}

/// Greatest number of bytes of a piece in a transfer of the channel.
const MOST_IN_PIECE: u64 = channel::PIECE as u64;
/// Greatest number of bytes of a piece in a message.
const MOST_IN_MESSAGE: usize = 1 << 20;

fn wrong(message: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_memory_of_a_copy_is_touched_and_only_while_it_is_under_way() {
        let transfers = Transfers::default();
        let (read, mut written) = ([1_u8, 2, 3, 4], [0_u8; 4]);
        let (from, to) = (read.as_ptr() as u64, written.as_mut_ptr() as u64);
        // SAFETY: both are in place until they are taken back.
        let (from, to) =
            unsafe { (Memory::new(from, 4, true, None), Memory::new(to, 4, false, None)) };
        let (from, to) = (transfers.add(from), transfers.add(to));
        assert_eq!(transfers.fetch(from, 1, 3).unwrap(), [2, 3, 4]);
        transfers.store(to, 2, 2, &[8, 9]).unwrap();
        assert!(transfers.store(to, 2, 2, &[8]).is_err());
        assert!(transfers.store(from, 0, 1, &[8]).is_err() && transfers.fetch(to, 0, 1).is_err());
        for (at, bytes) in [(4, 1), (0, 5), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(transfers.fetch(from, at, bytes).is_err(), "{bytes} at {at}");
        }
        transfers.take_back(from);
        transfers.take_all_back();
        assert!(transfers.fetch(from, 0, 1).is_err() && transfers.store(to, 0, 1, &[7]).is_err());
        assert_eq!(written, [0, 0, 8, 9]);
    }
}
