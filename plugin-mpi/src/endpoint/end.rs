//! The rest and the end of an endpoint.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Endpoint;
use super::frame::{Header, Kind};
use super::outbox::When;

impl Endpoint {
    /// Has the threads of this endpoint rest: none of them calls MPI until [`Endpoint::wake`], as
    /// the program may finalize MPI at any moment. First sends all messages, within `limit`. An
    /// endpoint without threads needs no rest. Blocks.
    pub fn rest(&self, limit: Duration) {
        if !self.is_threaded() {
            return;
        }
        let started = Instant::now();
        for (rank, peer) in self.peers.iter().enumerate() {
            // A failure shows in a later call.
            let _ = peer.outbox.lock().flush(self, rank as i32);
        }
        if !self.sends_all_by(started + limit) || !self.gate.close(limit) {
            log::debug!("messages are on their way when the last host ends");
        }
    }

    /// Ends the rest.
    pub fn wake(&self) {
        self.gate.open();
        self.threads.wake(self);
    }

    /// Returns whether the threads rest.
    pub(super) fn is_resting(&self) -> bool {
        self.gate.is_closed()
    }

    /// Waits until MPI has sent all messages, at most until `limit`. Returns whether it has.
    fn sends_all_by(&self, limit: Instant) -> bool {
        let are_all_sent = || {
            let mut peers = self.peers.iter().filter(|peer| peer.lost().is_none());
            peers.all(|peer| match peer.outbox.try_lock() {
                Some(mut outbox) => outbox.is_sent(self).unwrap_or(true),
                None => false,
            })
        };
        while !are_all_sent() {
            if Instant::now() >= limit {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        true
    }

    /// Ends the endpoint: its threads end, and then its last messages are sent, within `limit`.
    /// Each of `nodes` gets a farewell, and ends then. Returns whether MPI can be finalized: no
    /// process is lost, and no thread of this endpoint calls MPI any more.
    pub fn end(&self, nodes: &[i32], limit: Duration) -> bool {
        let started = Instant::now();
        self.is_over.store(true, Ordering::SeqCst);
        let are_threads_over = self.threads.end(self, limit);
        self.gate.open();
        // Not all libraries permit calls of several threads while they are finalized.
        let _life = self.life.lock();
        for (rank, peer) in self.peers.iter().enumerate().filter(|(_, peer)| peer.lost().is_none())
        {
            let rank = rank as i32;
            let Some(mut outbox) = peer.outbox.try_lock_for(limit) else { return false };
            let header = Header { kind: Kind::Bye, plugin: 0, method: 0, slot: 0, size: 0 };
            let _ = match nodes.contains(&rank) {
                true => outbox.add(self, rank, (header, &[]), When::Now).map(drop),
                false => outbox.flush(self, rank),
            };
        }
        let is_sent = self.sends_all_by(started + limit);
        let is_whole = self.peers.iter().all(|peer| peer.lost().is_none());
        self.end_channels();
        match self.receiver.try_lock() {
            Some(mut receiver) => receiver.end(self),
            None => return false,
        }
        // Threads of plugins and of the program may still wait for transfers.
        self.gate.close(limit) && is_sent && are_threads_over && is_whole
    }
}
