//! Calls and posts to other processes.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use longshore_executor::rpc::{CallError, EndReason};
use longshore_mpi::{Request, Source, Tag};

use super::backoff::Backoff;
use super::frame::{Header, Kind};
use super::outbox::When;
use super::replies::{self, Slot};
use super::{Endpoint, MESSAGES, MOST_CONTENT};
use crate::bells::For;

/// A sent call.
struct Begun {
    rank: i32,
    tag: i32,
    request: Request,
    slot: Slot,
}

impl Endpoint {
    /// Calls a plugin of several processes and waits for all replies, after running `meanwhile`. A
    /// process whose reply takes longer than `limit` is lost.
    /// Runs `on_failure` once, if one of several calls fails. Blocks.
    pub fn call_all(
        &self,
        plugin: u16,
        method: u32,
        requests: &[(i32, Vec<u8>)],
        limit: Option<Duration>,
        meanwhile: &mut dyn FnMut(),
        on_failure: &mut dyn FnMut(),
    ) -> Vec<Result<Vec<u8>, CallError>> {
        let begun = requests
            .iter()
            .map(|(rank, argument)| self.begin_call((*rank, plugin), method, argument));
        let begun: Vec<_> = begun.collect();
        let mut has_failed = begun.iter().any(Result::is_err);
        if has_failed {
            on_failure();
        } else {
            meanwhile();
        }
        let end = |call: Result<Begun, CallError>| {
            let reply = call.and_then(|call| self.end_call(call, limit));
            if reply.is_err() && !has_failed {
                has_failed = true;
                on_failure();
            }
            reply
        };
        begun.into_iter().map(end).collect()
    }

    /// Calls a plugin of a process and waits for the reply, after running `meanwhile`. Blocks.
    pub(super) fn call(
        &self,
        to: (i32, u16),
        method: u32,
        argument: &[u8],
        limit: Option<Duration>,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, CallError> {
        let begun = self.begin_call(to, method, argument)?;
        meanwhile();
        self.end_call(begun, limit)
    }

    /// Sends a call, for whose reply a place is ready.
    fn begin_call(
        &self,
        (rank, plugin): (i32, u16),
        method: u32,
        argument: &[u8],
    ) -> Result<Begun, CallError> {
        self.check(rank)?;
        self.check_thread()?;
        let most = longshore_executor::rpc::MAX_CONTENT;
        if argument.len() > most {
            return Err(CallError::TooLarge { bytes: argument.len(), most });
        }
        let most = replies::MOST_CALLS;
        let slot = self.peers[rank as usize].replies.take();
        let mut slot = slot.ok_or(CallError::TooMany { most })?;
        let number = slot.number;
        let tag = MESSAGES + 1 + number as i32;
        let (to, bytes) = (slot.buffer.as_mut_ptr(), slot.buffer.len());
        // SAFETY: the buffer stays in place until the receive is done, or for ever: see `give_up`.
        let request = self.with(|mpi| unsafe {
            mpi.irecv(to, bytes, Source::Rank(rank), Tag::Number(tag), self.messages)
        });
        let request = match request {
            Ok(request) => request,
            Err(why) => {
                self.peers[rank as usize].replies.give_back(slot);
                return Err(why.into());
            }
        };
        let begun = Begun { rank, tag, request, slot };
        let size = (argument.len() as u64).to_le_bytes();
        let is_long = argument.len() > MOST_CONTENT;
        let (kind, content) =
            if is_long { (Kind::LongCall, &size[..]) } else { (Kind::Call, argument) };
        let header = Header { kind, plugin, method, slot: number, size: content.len() as u32 };
        let mut sent = self.add(rank, (header, content), When::Now);
        if is_long && sent.is_ok() {
            let tag = tag + replies::MOST_CALLS as i32;
            let mut outbox = self.peers[rank as usize].outbox.lock();
            sent = outbox.send(self, rank, (self.messages, tag), argument.to_vec()).map(drop);
        }
        match sent {
            Ok(()) => Ok(begun),
            Err(error) => {
                self.give_up(begun);
                Err(error)
            }
        }
    }

    /// Waits for the reply to a call. Blocks.
    fn end_call(&self, mut call: Begun, limit: Option<Duration>) -> Result<Vec<u8>, CallError> {
        match self.wait_for_reply(call.rank, &mut call.request, limit) {
            Ok(bytes) => {
                let tag = Tag::Number(call.tag);
                let reply = self.read_reply(call.rank, tag, &call.slot.buffer[..bytes]);
                self.peers[call.rank as usize].replies.give_back(call.slot);
                reply
            }
            Err(error) => {
                self.give_up(call);
                Err(error)
            }
        }
    }

    /// Gives a call up. The process may still reply: the place is not used again.
    fn give_up(&self, mut call: Begun) {
        let _ = self.with(|mpi| mpi.cancel(&mut call.request));
        std::mem::forget(call.slot.buffer);
    }

    fn wait_for_reply(
        &self,
        rank: i32,
        request: &mut Request,
        limit: Option<Duration>,
    ) -> Result<usize, CallError> {
        let (mut backoff, started) = (Backoff::until_reply(self, rank), Instant::now());
        loop {
            if let Some(status) = self.with(|mpi| mpi.test(request))? {
                self.hear(rank);
                return Ok(status.bytes);
            }
            if backoff.looks_around() {
                self.check(rank)?;
                self.assist();
                if let Some(limit) = limit.filter(|limit| started.elapsed() > *limit) {
                    self.lose(rank, EndReason::Silent { limit });
                }
            }
            backoff.pause();
        }
    }

    fn read_reply(&self, rank: i32, tag: Tag, reply: &[u8]) -> Result<Vec<u8>, CallError> {
        let broken = || EndReason::Protocol(format!("a reply of {} bytes", reply.len()));
        match reply.split_first() {
            Some((0, content)) => Ok(content.to_vec()),
            Some((1, text)) => Err(CallError::Failed(String::from_utf8_lossy(text).into_owned())),
            Some((2, size)) => {
                let size = size.try_into().map(u64::from_le_bytes).map_err(|_| broken())?;
                self.receive_long(rank, tag, size)
            }
            _ => Err(broken().into()),
        }
    }

    /// Receives a reply that is longer than a message.
    pub(super) fn receive_long(
        &self,
        rank: i32,
        tag: Tag,
        size: u64,
    ) -> Result<Vec<u8>, CallError> {
        if size > longshore_executor::rpc::MAX_CONTENT as u64 {
            return Err(EndReason::Protocol(format!("a reply of {size} bytes")).into());
        }
        let mut content = vec![0; size as usize];
        let (to, bytes) = (content.as_mut_ptr(), content.len());
        // SAFETY: the buffer stays in place until the receive is done, or for ever.
        let mut request = self
            .with(|mpi| unsafe { mpi.irecv(to, bytes, Source::Rank(rank), tag, self.messages) })?;
        match self.wait_for_reply(rank, &mut request, None) {
            Ok(_) => Ok(content),
            Err(error) => {
                std::mem::forget(content);
                Err(error)
            }
        }
    }

    /// Sends a message without a reply.
    pub(super) fn post(
        &self,
        (rank, plugin): (i32, u16),
        method: u32,
        argument: &[u8],
    ) -> Result<(), CallError> {
        self.check(rank)?;
        self.check_thread()?;
        check_size(argument)?;
        let size = argument.len() as u32;
        let header = Header { kind: Kind::Post, plugin, method, slot: 0, size };
        let when = match (self.options.collects_posts, self.threads.is_attentive()) {
            (true, true) => When::Soon,
            (true, false) => When::Inattentive,
            (false, _) => When::Now,
        };
        self.add(rank, (header, argument), when)
    }

    fn add(&self, rank: i32, frame: (Header, &[u8]), when: When) -> Result<(), CallError> {
        let mut outbox = self.peers[rank as usize].outbox.lock();
        let added = outbox.add(self, rank, frame, when);
        let has_row = outbox.has_row();
        drop(outbox);
        if has_row && when == When::Inattentive {
            // An attentive receiver lets the next posts go together.
            self.bells.ring_own(For::Receiver);
        }
        match added {
            Ok(false) => {
                self.note(&self.activity);
                Ok(())
            }
            Ok(true) => {
                self.waiting.lock().push(rank);
                self.is_any_waiting.store(true, Ordering::SeqCst);
                // The receiver may have begun a long sleep meanwhile.
                fence(Ordering::SeqCst);
                if !self.threads.is_attentive() {
                    self.bells.ring_own(For::Receiver);
                }
                Ok(())
            }
            Err(CallError::Ended(why)) => {
                if !matches!(why, EndReason::Here | EndReason::Forked) {
                    self.lose(rank, why.clone());
                }
                Err(why.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the frames that wait for later ones. Called by the receiving thread.
    pub(super) fn flush_waiting(&self) {
        if !self.is_any_waiting.load(Ordering::Acquire) {
            return;
        }
        self.is_any_waiting.store(false, Ordering::Relaxed);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        self.note(&self.activity);
        for rank in waiting {
            let flushed = self.peers[rank as usize].outbox.lock().flush_waiting(self, rank);
            if let Err(CallError::Ended(why)) = flushed {
                self.lose(rank, why);
            }
        }
    }

    /// Sends a sign of life, unless MPI has too many messages.
    pub(super) fn beat(&self, rank: i32) {
        let header = Header { kind: Kind::Beat, plugin: 0, method: 0, slot: 0, size: 0 };
        if let Some(mut outbox) = self.peers[rank as usize].outbox.try_lock() {
            let _ = outbox.add(self, rank, (header, &[]), When::IfPossible);
        }
    }
}

fn check_size(content: &[u8]) -> Result<(), CallError> {
    match content.len() <= MOST_CONTENT {
        true => Ok(()),
        false => Err(CallError::TooLarge { bytes: content.len(), most: MOST_CONTENT }),
    }
}
