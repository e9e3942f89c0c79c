//! Messages on their way to one process.

use std::time::{Duration, Instant};

use longshore_executor::rpc::{CallError, EndReason};
use longshore_mpi::{Comm, Request};

use super::backoff::Backoff;
use super::frame::Header;
use super::{Endpoint, MESSAGES, MOST_IN_MESSAGE};
use crate::bells::For;

/// Number of messages that MPI may have without having sent them.
const IN_FLIGHT: usize = 64;
/// Posts that follow each other this soon go in one message.
const TOGETHER: Duration = Duration::from_micros(5);
/// Posts after which it is worth while to wake the receiver, which lets them go together.
const ROW: u32 = 8;
/// Bytes of posts that go in one message, about.
const ENOUGH: usize = 4 << 10;

/// The messages to one process.
pub(super) struct Outbox {
    sends: Vec<InFlight>,
    next: usize,
    /// Frames for the next message.
    pending: Vec<u8>,
    /// The time of the last message of a post.
    last: Option<Instant>,
    /// Whether a lone post waits for the next frame, as the last one was followed closely.
    holds_posts: bool,
    /// Number of posts that have followed each other closely.
    row: u32,
}

struct InFlight {
    request: Option<Request>,
    bytes: Vec<u8>,
}

/// The moment to send a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Now,
    /// The moment of a later frame, if the last post was sent a moment ago, or was followed closely
    /// by another frame.
    Soon,
    /// Now, although later posts may follow, as the receiver would send them late.
    Inattentive,
    /// Now, unless MPI has too many messages: then not at all.
    IfPossible,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            sends: Vec::new(),
            next: 0,
            pending: Vec::new(),
            last: None,
            holds_posts: false,
            row: 0,
        }
    }

    /// Adds a frame, and sends it now or with later ones. Returns whether frames wait that did not
    /// wait before.
    ///
    /// # Errors
    /// The end of the process, and a failure of MPI.
    pub(super) fn add(
        &mut self,
        endpoint: &Endpoint,
        rank: i32,
        (header, content): (Header, &[u8]),
        when: When,
    ) -> Result<bool, CallError> {
        let size = Header::BYTES + content.len();
        if when == When::IfPossible && !self.has_room(endpoint)? {
            return Ok(false);
        }
        if self.pending.len() + size > MOST_IN_MESSAGE {
            self.flush(endpoint, rank)?;
        }
        let is_first = self.pending.is_empty();
        self.pending.extend_from_slice(&header.to_bytes());
        self.pending.extend_from_slice(content);
        let may_wait = when == When::Soon && self.pending.len() < ENOUGH;
        if may_wait && self.holds_posts {
            return Ok(is_first);
        }
        let now = Instant::now();
        let is_close = self.last.is_some_and(|last| now.duration_since(last) < TOGETHER);
        self.holds_posts |= is_close;
        self.row = if is_close && when != When::Now { self.row.wrapping_add(1) } else { 0 };
        if may_wait && self.holds_posts {
            return Ok(is_first);
        }
        if matches!(when, When::Soon | When::Inattentive) {
            self.last = Some(now);
        }
        self.flush(endpoint, rank).map(|()| false)
    }

    /// Returns whether many posts have followed each other closely; not for each of them.
    pub(super) fn has_row(&self) -> bool {
        self.row % ROW == ROW / 2
    }

    /// Sends all frames that have waited in vain for a later one.
    ///
    /// # Errors
    /// As for [`Outbox::add`].
    pub(super) fn flush_waiting(
        &mut self,
        endpoint: &Endpoint,
        rank: i32,
    ) -> Result<(), CallError> {
        self.holds_posts = false;
        self.flush(endpoint, rank)
    }

    /// Sends all frames that wait.
    ///
    /// # Errors
    /// As for [`Outbox::add`].
    pub(super) fn flush(&mut self, endpoint: &Endpoint, rank: i32) -> Result<(), CallError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let message = std::mem::take(&mut self.pending);
        let sent = self.send(endpoint, rank, (endpoint.messages, MESSAGES), message);
        sent.map(|empty| self.pending = empty)
    }

    /// Sends a message of a communicator, with a tag. Returns an empty buffer.
    ///
    /// # Errors
    /// As for [`Outbox::add`].
    pub(super) fn send(
        &mut self,
        endpoint: &Endpoint,
        rank: i32,
        (comm, tag): (Comm, i32),
        message: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        if !self.has_room(endpoint)? {
            let mut backoff = Backoff::new(endpoint);
            while !self.has_room(endpoint)? {
                endpoint.check(rank)?;
                backoff.pause();
            }
        }
        let send = &mut self.sends[self.next];
        let mut empty = std::mem::replace(&mut send.bytes, message);
        let (from, bytes) = (send.bytes.as_ptr(), send.bytes.len());
        // SAFETY: the bytes stay in place until the request is complete: see above, and `drop`.
        let request = endpoint.with(|mpi| unsafe { mpi.isend(from, bytes, rank, tag, comm) })?;
        send.request = Some(request);
        let is_message = (comm, tag) == (endpoint.messages, MESSAGES);
        endpoint.bells.ring(rank, if is_message { For::Receiver } else { For::Callers });
        self.next = (self.next + 1) % self.sends.len();
        empty.clear();
        Ok(empty)
    }

    /// Makes the next place free for a message, if that needs no wait. Returns whether it is free.
    fn has_room(&mut self, endpoint: &Endpoint) -> Result<bool, EndReason> {
        if let Some(send) = self.sends.get_mut(self.next) {
            let Some(request) = &mut send.request else { return Ok(true) };
            if endpoint.with(|mpi| mpi.test_completion(request))? {
                send.request = None;
                return Ok(true);
            }
        }
        if self.sends.len() == IN_FLIGHT {
            return Ok(false);
        }
        self.next = self.sends.len();
        self.sends.push(InFlight { request: None, bytes: Vec::new() });
        Ok(true)
    }

    /// Returns whether MPI has sent all messages.
    ///
    /// # Errors
    /// A failure of MPI.
    pub(super) fn is_sent(&mut self, endpoint: &Endpoint) -> Result<bool, EndReason> {
        for send in &mut self.sends {
            let Some(request) = &mut send.request else { continue };
            if !endpoint.with(|mpi| mpi.test_completion(request))? {
                return Ok(false);
            }
            send.request = None;
        }
        Ok(true)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // MPI may still read the bytes of messages that it has not sent.
        for send in self.sends.drain(..).filter(|send| send.request.is_some()) {
            std::mem::forget(send.bytes);
        }
    }
}
