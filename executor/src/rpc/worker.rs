//! Threads that take messages out of the ring in shared memory, and answer the calls among them.
//!
//! One of the idle threads, at most, looks at the ring; the others sleep. Who takes a call out gives the look-out up, without
//! waking anyone: if a message comes while it answers, the sender sees that nobody looks, and wakes one of the others. So a call
//! costs a wake-up each way at most, and none if the look-out and the caller look for what comes next for a moment ([`Patience`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::time::Duration;

use parking_lot::Mutex;

use super::connection::Peer;
use super::link::{Direction, MOST_CALLS, RING_BYTES};
use super::patience::Patience;
use super::pool::{MOST_IDLE, RESTING};
use super::ring::{ATTENDED, Receiver, UNATTENDED, call_attention};
use super::wire::{Header, Kind};
use super::{Ended, futex};

/// The receiving side of a ring, for all its threads.
#[derive(Debug, Default)]
pub(super) struct Workers {
    receiver: Mutex<Receiver>,
    /// How many of the times that the bell rang a thread has come.
    answered: AtomicU32,
    threads: AtomicUsize,
    idle: AtomicUsize,
    patience: Patience,
}

impl Workers {
    /// Starts the first thread.
    pub(super) fn start(&self, peer: &Arc<Peer>) -> Result<(), Ended> {
        self.spawn(peer)
    }

    /// Takes what the other side has posted before it went. Its calls have nobody who waits for an answer.
    pub(super) fn take_last_posts(&self, peer: &Arc<Peer>) {
        let (ring, mut content) = (peer.incoming(), Vec::new());
        // Who has it takes them too, unless it is busy with one that waits for the end of the connection.
        let Some(mut receiver) = self.receiver.try_lock_for(LAST_POSTS) else { return };
        // More do not fit into the ring: who is still there and goes on posting is not listened to for ever.
        for _ in 0..RING_BYTES / Header::BYTES {
            match receiver.receive(ring, &mut content) {
                Ok(Some(header)) if header.kind == Kind::Post => peer.take_post(header, &content),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Wakes all threads, so that they see that the connection is over.
    pub(super) fn end(&self, ring: Direction<'_>) {
        ring.bell().fetch_add(1, Ordering::Release);
        futex::wake(ring.bell(), i32::MAX as u32);
    }

    fn spawn(&self, peer: &Arc<Peer>) -> Result<(), Ended> {
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.idle.fetch_add(1, Ordering::Relaxed);
        let worker = Arc::clone(peer);
        peer.spawn("ring", move || worker.workers().work(&worker))
    }

    /// What each of the threads does, until the connection is over.
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
                // Who sees the answer may call again at once, and need not wake anyone then.
                peer.serve(call, &content, || looks_out = take_look_out(ring));
                looks_out = looks_out || take_look_out(ring);
                self.idle.fetch_add(1, Ordering::Relaxed);
                if content.capacity() > KEPT {
                    content = Vec::new();
                }
            }
        }
    }

    /// Takes messages out until one of them is a call, or there are none.
    fn look_out(
        &self,
        peer: &Arc<Peer>,
        ring: Direction<'_>,
        content: &mut Vec<u8>,
    ) -> Option<Header> {
        while !peer.is_finished() {
            let mut receiver = self.receiver.lock();
            match receiver.receive(ring, content) {
                // Posts are taken in order, so the receiver stays locked.
                Ok(Some(header)) if header.kind == Kind::Post => peer.take_post(header, content),
                Ok(Some(header)) if header.kind == Kind::Call => {
                    self.give_up_look_out(&receiver, ring);
                    drop(receiver);
                    self.leave_a_thread(peer);
                    return Some(header);
                }
                Ok(Some(header)) => {
                    let kind = header.kind;
                    peer.end(Ended::Protocol(format!("a message of kind {kind:?} in the ring")));
                    return None;
                }
                Ok(None) => {
                    let taken = receiver.taken();
                    drop(receiver);
                    let tail = ring.tail();
                    let come = || futex::load(tail) != taken || peer.is_over();
                    if !self.patience.look(peer.spin(), come) || peer.is_over() {
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

    /// Whether the bell rang and no other thread has come: then this one is the look-out.
    fn was_called(&self, ring: Direction<'_>) -> bool {
        let answered = self.answered.load(Ordering::Relaxed);
        let rung = futex::load(ring.bell());
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        rung != answered && self.answered.compare_exchange(answered, rung, success, failure).is_ok()
    }

    /// From now on a sender wakes somebody. If something came before it could know, that is done here.
    fn give_up_look_out(&self, receiver: &Receiver, ring: Direction<'_>) {
        ring.attention().store(UNATTENDED, Ordering::Release);
        fence(Ordering::SeqCst);
        if !receiver.is_at_tail(ring) {
            call_attention(ring);
        }
    }

    /// Sleeps until the bell rings, for [`RESTING`] at most: whether it was for so long.
    fn sleep(&self, peer: &Peer, ring: Direction<'_>) -> bool {
        let answered = self.answered.load(Ordering::Relaxed);
        // The other side can write the old number over the new one.
        futex::load(ring.bell()) == answered
            && !peer.is_over()
            && futex::sleep(ring.bell(), answered, Some(RESTING))
    }

    /// Whether enough other threads are idle that this one, which is too, can end. Then it is counted no more.
    fn may_end(&self) -> bool {
        let fewer = |idle: usize| idle.checked_sub(1).filter(|left| *left >= MOST_IDLE);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let may_end = self.idle.fetch_update(success, failure, fewer).is_ok();
        if may_end {
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        may_end
    }

    /// Sees to it that there is another thread when this one answers a call.
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

/// Becomes the look-out, if there is none.
fn take_look_out(ring: Direction<'_>) -> bool {
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    ring.attention().compare_exchange(UNATTENDED, ATTENDED, success, failure).is_ok()
}

/// How long a thread may take for the last messages that it has begun to take.
const LAST_POSTS: Duration = Duration::from_millis(100);

/// The largest content whose memory a thread keeps for the next.
const KEPT: usize = 64 << 10;
