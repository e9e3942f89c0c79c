//! Threads that take messages out of the ring in shared memory, and handle the calls among them.
//!
//! At most one idle thread, the look-out, watches the ring; the others sleep. A thread that takes a
//! call out gives up this role without a wake-up. If a message comes while it handles the call,
//! the sender sees that no thread watches, and wakes one of the others. So a call costs at most one
//! wake-up in each direction. It costs none if the look-out and the caller spin long enough for the
//! next message ([`AdaptiveSpin`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::time::Duration;

use parking_lot::Mutex;

use super::adaptive_spin::AdaptiveSpin;
use super::connection::Peer;
use super::link::{Direction, MOST_CALLS, RING_BYTES};
use super::pool::{MOST_IDLE, RESTING};
use super::ring::{ATTENDED, Receiver, UNATTENDED, call_attention};
use super::wire::{Header, Kind};
use super::{EndReason, futex};

/// The receiving side of a ring, for all its threads.
#[derive(Debug, Default)]
pub(super) struct Workers {
    receiver: Mutex<Receiver>,
    /// The bell's count at the last wake-up that a thread has claimed.
    replied: AtomicU32,
    threads: AtomicUsize,
    idle: AtomicUsize,
    adaptive_spin: AdaptiveSpin,
}

impl Workers {
    /// Starts the first thread.
    pub(super) fn start(&self, peer: &Arc<Peer>) -> Result<(), EndReason> {
        self.spawn(peer)
    }

    /// Handles the posts that the other side sent before its end. Its calls are dropped, since no
    /// caller waits for a reply.
    pub(super) fn take_last_posts(&self, peer: &Arc<Peer>) {
        let (ring, mut content) = (peer.incoming(), Vec::new());
        // A thread that holds the receiver handles them too, unless it is busy with a post that
        // waits for the end of the connection.
        let Some(mut receiver) = self.receiver.try_lock_for(LAST_POSTS) else { return };
        // The ring holds no more messages. The bound ends the loop when the other side is still
        // there and goes on posting.
        for _ in 0..RING_BYTES / Header::BYTES {
            match receiver.receive(ring, &mut content) {
                Ok(Some(header)) if header.kind == Kind::Post => peer.take_post(header, &content),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Wakes all threads, so that they see the end of the connection.
    pub(super) fn end(&self, ring: Direction<'_>) {
        ring.bell().fetch_add(1, Ordering::Release);
        futex::wake(ring.bell(), i32::MAX as u32);
    }

    fn spawn(&self, peer: &Arc<Peer>) -> Result<(), EndReason> {
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.idle.fetch_add(1, Ordering::Relaxed);
        let worker = Arc::clone(peer);
        peer.spawn("ring", move || worker.workers().work(&worker))
    }

    /// Runs one of the threads until the connection is over.
    fn work(&self, peer: &Arc<Peer>) {
        let ring = peer.incoming();
        let mut content = Vec::new();
        let mut looks_out = false;
        while !peer.is_over() {
            if !looks_out && !self.was_called(ring) {
                let has_rested = self.sleep(peer, ring);
                looks_out = self.was_called(ring);
                if has_rested && !looks_out && self.may_end() {
                    return;
                }
                continue;
            }
            looks_out = false;
            if let Some(call) = self.look_out(peer, ring, &mut content) {
                // The caller may call again as soon as it sees the reply; this thread then watches
                // already, and no wake-up is needed.
                peer.serve(call, &content, || looks_out = take_look_out(ring));
                looks_out = looks_out || take_look_out(ring);
                self.idle.fetch_add(1, Ordering::Relaxed);
                if content.capacity() > KEPT {
                    content = Vec::new();
                }
            }
        }
    }

    /// Takes messages out of the ring until one of them is a call, or the ring is empty.
    fn look_out(
        &self,
        peer: &Arc<Peer>,
        ring: Direction<'_>,
        content: &mut Vec<u8>,
    ) -> Option<Header> {
        while !peer.is_finished() {
            let mut receiver = self.receiver.lock();
            match receiver.receive(ring, content) {
                // Posts are handled in order, so the receiver stays locked.
                Ok(Some(header)) if header.kind == Kind::Post => peer.take_post(header, content),
                Ok(Some(header)) if header.kind == Kind::Call => {
                    self.give_up_look_out(&receiver, ring);
                    drop(receiver);
                    self.leave_a_thread(peer);
                    return Some(header);
                }
                Ok(Some(header)) => {
                    let kind = header.kind;
                    peer.end(EndReason::Protocol(format!(
                        "a message of kind {kind:?} in the ring"
                    )));
                    return None;
                }
                Ok(None) => {
                    let taken = receiver.taken();
                    drop(receiver);
                    let tail = ring.tail();
                    let come = || futex::load(tail) != taken || peer.is_over();
                    if !self.adaptive_spin.look(peer.spin(), come) || peer.is_over() {
                        self.give_up_look_out(&self.receiver.lock(), ring);
                        return None;
                    }
                }
                Err(ended) => {
                    peer.end(ended);
                    return None;
                }
            }
        }
        None
    }

    /// Returns whether the bell rang and this thread has claimed it as the look-out.
    fn was_called(&self, ring: Direction<'_>) -> bool {
        let replied = self.replied.load(Ordering::Relaxed);
        let rung = futex::load(ring.bell());
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        rung != replied && self.replied.compare_exchange(replied, rung, success, failure).is_ok()
    }

    /// Gives up the role of the look-out: from now on a sender wakes a thread. If a message has
    /// come before the sender could know, this function wakes one.
    fn give_up_look_out(&self, receiver: &Receiver, ring: Direction<'_>) {
        ring.attention().store(UNATTENDED, Ordering::Release);
        fence(Ordering::SeqCst);
        if !receiver.is_at_tail(ring) {
            call_attention(ring);
        }
    }

    /// Sleeps until the bell rings, for at most [`RESTING`]. Returns whether that time has passed.
    fn sleep(&self, peer: &Peer, ring: Direction<'_>) -> bool {
        let replied = self.replied.load(Ordering::Relaxed);
        // The other side can overwrite the new count with the old one, so the sleep has a limit.
        futex::load(ring.bell()) == replied
            && !peer.is_over()
            && futex::sleep(ring.bell(), replied, Some(RESTING))
    }

    /// Returns whether this idle thread can end because enough other threads are idle, and removes
    /// it from the counts if so.
    fn may_end(&self) -> bool {
        let fewer = |idle: usize| idle.checked_sub(1).filter(|left| *left >= MOST_IDLE);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let may_end = self.idle.fetch_update(success, failure, fewer).is_ok();
        if may_end {
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        may_end
    }

    /// Ensures that another thread is available while this one handles a call.
    fn leave_a_thread(&self, peer: &Arc<Peer>) {
        let left = self.idle.fetch_sub(1, Ordering::Relaxed) - 1;
        if left == 0
            && self.threads.load(Ordering::Relaxed) <= MOST_CALLS
            && let Err(ended) = self.spawn(peer)
        {
            peer.end(ended);
        }
    }
}

/// Makes the calling thread the look-out, unless there is one. Returns whether it became the
/// look-out.
fn take_look_out(ring: Direction<'_>) -> bool {
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    ring.attention().compare_exchange(UNATTENDED, ATTENDED, success, failure).is_ok()
}

/// Time to wait for a thread that holds the receiver while it handles posts.
const LAST_POSTS: Duration = Duration::from_millis(100);

/// Greatest capacity of a content buffer in bytes that a thread keeps for the next message.
const KEPT: usize = 64 << 10;
