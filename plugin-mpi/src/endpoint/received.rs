//! Calls and messages from other processes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use longshore_executor::plugin::Address;
use longshore_executor::rpc::{CallError, EndReason};
use longshore_mpi::Tag;

use super::frame::{Header, Kind};
use super::threads::Taken;
use super::{Endpoint, MESSAGES, MOST_IN_MESSAGE, replies};

/// A received call.
pub(super) struct Call {
    pub(super) from: i32,
    pub(super) header: Header,
    /// The place of the content in `buffer`.
    pub(super) at: usize,
    pub(super) buffer: Box<[u8]>,
}

impl Endpoint {
    /// Handles a call and sends the reply.
    pub(super) fn handle(self: &Arc<Self>, call: Call) {
        let Call { from, header, at, buffer } = call;
        let content = &buffer[at..at + header.size as usize];
        let Some(channel) = self.mpi_channel(from, header.plugin) else { return };
        let run = || match header.kind {
            Kind::LongCall => {
                let size = content.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
                let tag = MESSAGES + 1 + replies::MOST_CALLS as i32 + header.slot as i32;
                let content = self.receive_long(from, Tag::Number(tag), size);
                let content = content.map_err(|error| error.to_string())?;
                self.service.call(&channel, header.method, &content)
            }
            _ => self.service.call(&channel, header.method, content),
        };
        let reply = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err("the handler of the call panicked".to_owned()));
        self.receiver_spare(buffer);
        let tag = MESSAGES + 1 + header.slot as i32;
        let sent = self.reply(from, tag, reply);
        if let Err(CallError::Ended(why)) = sent {
            self.lose(from, why);
        }
    }

    fn reply(&self, to: i32, tag: i32, reply: Result<Vec<u8>, String>) -> Result<(), CallError> {
        let (kind, content) = match reply {
            Ok(content) => (0_u8, content),
            Err(text) => (1, text.into_bytes()),
        };
        let mut outbox = self.peers[to as usize].outbox.lock();
        if content.len() < MOST_IN_MESSAGE {
            let mut message = Vec::with_capacity(content.len() + 1);
            message.push(kind);
            message.extend_from_slice(&content);
            outbox.send(self, to, (self.messages, tag), message)?;
            return Ok(());
        }
        let mut message = vec![2_u8];
        message.extend_from_slice(&(content.len() as u64).to_le_bytes());
        outbox.send(self, to, (self.messages, tag), message)?;
        outbox.send(self, to, (self.messages, tag), content)?;
        Ok(())
    }

    fn receiver_spare(&self, buffer: Box<[u8]>) {
        if let Some(mut receiver) = self.receiver.try_lock() {
            receiver.give_back(buffer);
        }
    }

    pub(super) fn take_post(&self, from: i32, header: Header, content: &[u8]) {
        let address = Address { rank: from as u32, plugin: u32::from(header.plugin) };
        let post = || self.service.post(address, header.method, content);
        if catch_unwind(AssertUnwindSafe(post)).is_err() {
            log::error!("the handler of a message panicked");
        }
    }

    pub(super) fn take_bye(&self, from: i32) {
        self.service.bye(from);
    }

    pub(super) fn broken(&self, from: i32, bytes: usize) {
        self.lose(from, EndReason::Protocol(format!("a message of {bytes} bytes is malformed")));
    }

    /// Handles a failed receive: with ULFM, processes have failed.
    pub(super) fn failed(&self, error: &EndReason) {
        log::debug!("receiving messages: {error}");
        let failed = if self.mpi.has_ulfm() {
            self.mpi.comm_get_failed(self.messages).unwrap_or_default()
        } else {
            Vec::new()
        };
        for rank in failed {
            self.lose(rank, EndReason::Stream("MPI reports that the process has failed".into()));
        }
    }

    /// Does the work of the receiver, which leaves MPI to a caller that waits: sends waiting
    /// messages, and receives messages for other threads. Without such threads, handles them.
    pub(super) fn assist(&self) {
        let Some(this) = self.this.upgrade() else { return };
        if self.is_threaded() {
            self.flush_waiting();
            let Some(mut receiver) = self.receiver.try_lock() else { return };
            if let Err(error) = self.threads.receive_for_others(&this, &mut receiver) {
                self.failed(&error);
            }
            return;
        }
        self.look_after_peers();
        let Some(mut receiver) = self.receiver.try_lock() else { return };
        let received = self.threads.receive_one(&this, &mut receiver);
        drop(receiver);
        match received {
            Ok(Some(Taken::Call(call))) => this.handle(call),
            Ok(_) => {}
            Err(error) => self.failed(&error),
        }
    }
}
