//! Pauses of a thread that polls MPI, whose waits would keep a processor busy.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Endpoint;
use crate::bells::{For, Listening};

/// The pauses of one wait: none at first, then the processor is yielded, then the thread sleeps.
pub(super) struct Backoff<'a> {
    endpoint: &'a Endpoint,
    /// Whether the process that ends the wait rings this one's bell then.
    is_rung: bool,
    /// Transfers of this wait.
    own_transfers: usize,
    turns: u32,
    since: Option<Instant>,
    /// Whether other threads need the processor.
    is_crowded: bool,
    /// Set for the last look before a sleep.
    listening: Option<Listening<'a>>,
}

/// Polls before the processor is yielded.
const EAGER: u32 = 64;
/// Polls between looks at the clock.
const LOOK: u32 = 16;
/// The number of turns before one that looks at the clock.
const DUE: u32 = EAGER + LOOK - 1 - EAGER % LOOK;
/// Time for which a thread only yields.
const YIELDING: Duration = Duration::from_millis(2);
/// A longer time without the yielded processor means that other threads need it.
const CROWDED: Duration = Duration::from_micros(400);
/// Least and greatest sleep.
const NAP: Duration = Duration::from_micros(20);
const LONG_NAP: Duration = Duration::from_millis(1);
/// Least and greatest sleep that a ring ends.
const SLEEP: Duration = Duration::from_micros(100);
const LONG_SLEEP: Duration = Duration::from_millis(10);

impl<'a> Backoff<'a> {
    /// Begins a wait for progress of MPI.
    pub(super) fn new(endpoint: &'a Endpoint) -> Self {
        endpoint.polling.fetch_add(1, Ordering::Relaxed);
        let (since, listening) = (None, None);
        Self {
            endpoint,
            is_rung: false,
            own_transfers: 0,
            turns: 0,
            since,
            is_crowded: false,
            listening,
        }
    }

    /// Begins a wait for the reply of a process.
    pub(super) fn until_reply(endpoint: &'a Endpoint, rank: i32) -> Self {
        let mut this = Self::new(endpoint);
        // Without a receiver the caller itself receives other messages.
        this.is_rung = endpoint.is_threaded() && endpoint.bells.can_ring(rank);
        this
    }

    /// Begins a wait for data of a process, which may begin to send much later.
    pub(super) fn until_data(endpoint: &'a Endpoint, rank: i32) -> Self {
        let mut this = Self::until_reply(endpoint, rank);
        this.own_transfers = 1;
        this
    }

    /// Pauses after a poll without success.
    pub(super) fn pause(&mut self) {
        self.turns += 1;
        if self.turns < EAGER {
            std::hint::spin_loop();
            return;
        }
        if !self.turns.is_multiple_of(LOOK) {
            return;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if let Some(listening) = self.listening.take() {
            // Another thread receives messages meanwhile, or sleeps until the same ring.
            self.endpoint.polling.fetch_sub(1, Ordering::Relaxed);
            let is_over = listening.sleep((waited / 4).clamp(SLEEP, LONG_SLEEP));
            self.endpoint.polling.fetch_add(1, Ordering::Relaxed);
            self.turns = DUE;
            // MPI may need this process for the rest of a transfer.
            self.is_rung &= self.own_transfers == 0 || is_over;
            return;
        }
        // No process rings when MPI needs this process for a transfer.
        let transfers = self.endpoint.transfers.load(Ordering::Relaxed);
        let sleeps = self.is_rung && transfers == self.own_transfers;
        if sleeps && (self.is_crowded || waited >= YIELDING) {
            self.listening = self.endpoint.bells.listen(For::Callers);
            self.turns = DUE;
        } else if waited < YIELDING {
            self.is_crowded |= yields_to_others();
        } else {
            std::thread::sleep((waited / 256).clamp(NAP, LONG_NAP));
            self.turns = DUE;
        }
    }

    /// Returns whether rare events should be looked for now: at times, in a wait that lasts.
    pub(super) fn looks_around(&self) -> bool {
        self.turns >= EAGER && self.turns % LOOK == LOOK - 1
    }
}

impl Drop for Backoff<'_> {
    fn drop(&mut self) {
        self.endpoint.polling.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Yields the processor, and returns whether another thread has used it.
pub(super) fn yields_to_others() -> bool {
    let before = Instant::now();
    std::thread::yield_now();
    before.elapsed() > CROWDED
}

/// Lets sleeps of this thread end within some microseconds of their time.
pub(super) fn sharpen_sleeps() {
    // SAFETY: the call sets a number of this thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000_u64, 0_u64, 0_u64, 0_u64) };
}
