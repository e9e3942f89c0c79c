//! The slots in which callers wait for their replies.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::futex;
use super::link::{Direction, MOST_CALLS, SLOT_CONTENT, SLOTS};
use super::{CallError, EndReason};

/// A slot that no call uses.
const FREE: u32 = 0;
/// A call under way.
const PENDING: u32 = 1;
/// A call under way whose caller sleeps.
const ASLEEP: u32 = 2;
/// A reply in the slot.
const IN_SLOT: u32 = 3;
/// A reply from the stream.
const IN_STREAM: u32 = 4;
/// The end of the connection.
const LOST: u32 = 5;

/// The slots of one side's calls: the slots in shared memory, then further slots of this process,
/// made in groups of [`SLOTS`]. So no call waits for another to end.
#[derive(Debug)]
pub(super) struct Slots {
    free: Mutex<FreeSlots>,
    places: [OnceLock<Box<[Place]>>; MOST_CALLS / SLOTS],
}

/// Slots without a call.
#[derive(Debug)]
struct FreeSlots {
    shared: Vec<usize>,
    further: Vec<usize>,
    /// Number of slots made, including the slots in use.
    made: usize,
}

/// A slot's state in this process.
#[derive(Debug, Default)]
struct Place {
    /// The state of a slot that is not in shared memory.
    state: AtomicU32,
    streamed: Mutex<StreamReply>,
}

/// A reply from the stream.
#[derive(Debug, Default)]
struct StreamReply {
    /// The identity of the call under way.
    awaited: Option<u64>,
    calls: u32,
    reply: Option<Result<Vec<u8>, String>>,
}

/// A slot that a call uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallSlot {
    slot: usize,
    /// The call's identity: no two calls under way have the same.
    pub(super) identity: u64,
}

impl Slots {
    pub(super) fn new() -> Self {
        let shared = (0..SLOTS).rev().collect();
        let free = Mutex::new(FreeSlots { shared, further: Vec::new(), made: SLOTS });
        let slots = Self { free, places: [const { OnceLock::new() }; MOST_CALLS / SLOTS] };
        slots.make(0);
        slots
    }

    /// Takes a slot for a call. Does not block.
    ///
    /// # Errors
    /// [`CallError::TooMany`], and the reason returned by `ended`.
    pub(super) fn take(
        &self,
        direction: Direction<'_>,
        ended: &dyn Fn() -> Option<EndReason>,
    ) -> Result<CallSlot, CallError> {
        if let Some(ended) = ended() {
            return Err(ended.into());
        }
        let slot = self.free_slot().ok_or(CallError::TooMany { most: MOST_CALLS })?;
        let mut streamed = self.place(slot).streamed.lock();
        streamed.calls = streamed.calls.wrapping_add(1);
        let identity = slot as u64 | u64::from(streamed.calls) << 32;
        streamed.awaited = Some(identity);
        self.state(direction, slot).store(PENDING, Ordering::Relaxed);
        Ok(CallSlot { slot, identity })
    }

    fn free_slot(&self) -> Option<usize> {
        let mut free = self.free.lock();
        if let Some(slot) = free.shared.pop() {
            return Some(slot);
        }
        if let Some(slot) = free.further.pop() {
            return Some(slot);
        }
        let slot = Some(free.made).filter(|made| *made < MOST_CALLS)?;
        self.make(slot / SLOTS);
        free.made += 1;
        Some(slot)
    }

    fn make(&self, group: usize) {
        self.places[group].get_or_init(|| (0..SLOTS).map(|_| Place::default()).collect());
    }

    /// Returns the place of a slot, if it was made.
    fn place_of(&self, slot: usize) -> Option<&Place> {
        self.places.get(slot / SLOTS)?.get()?.get(slot % SLOTS)
    }

    fn place(&self, slot: usize) -> &Place {
        self.place_of(slot).expect("a slot that was taken has a place")
    }

    fn state<'a>(&'a self, direction: Direction<'a>, slot: usize) -> &'a AtomicU32 {
        if slot < SLOTS { direction.slot_state(slot) } else { &self.place(slot).state }
    }

    /// Returns whether a call is under way.
    pub(super) fn are_in_use(&self) -> bool {
        let free = self.free.lock();
        free.shared.len() + free.further.len() < free.made
    }

    /// Gives a slot back.
    pub(super) fn free(&self, direction: Direction<'_>, taken: CallSlot) {
        let mut streamed = self.place(taken.slot).streamed.lock();
        streamed.awaited = None;
        streamed.reply = None;
        drop(streamed);
        self.state(direction, taken.slot).store(FREE, Ordering::Relaxed);
        let mut free = self.free.lock();
        let free = if taken.slot < SLOTS { &mut free.shared } else { &mut free.further };
        free.push(taken.slot);
    }

    /// Returns a function that checks whether a call has its reply or the connection is over.
    pub(super) fn look<'a>(
        &'a self,
        direction: Direction<'a>,
        taken: CallSlot,
        ended: &'a dyn Fn() -> Option<EndReason>,
    ) -> impl FnMut() -> bool + use<'a> {
        let word = self.state(direction, taken.slot);
        let mut looks = 0_u32;
        move || {
            looks += 1;
            is_done(futex::load(word)) || looks.is_multiple_of(64) && ended().is_some()
        }
    }

    /// Blocks until a call has its reply or the connection is over. Returns `None` when `deadline`
    /// has passed.
    pub(super) fn wait(
        &self,
        direction: Direction<'_>,
        taken: CallSlot,
        deadline: Option<Instant>,
        ended: &dyn Fn() -> Option<EndReason>,
    ) -> Option<Result<Vec<u8>, CallError>> {
        let word = self.state(direction, taken.slot);
        loop {
            let state = futex::load(word);
            if is_done(state)
                && let Some(reply) = self.reply(direction, taken, state)
            {
                return Some(reply);
            }
            if let Some(ended) = ended() {
                return Some(Err(ended.into()));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            let state = word.compare_exchange(PENDING, ASLEEP, success, failure);
            if matches!(state, Ok(PENDING) | Err(ASLEEP)) {
                // The other side can overwrite the word with `ASLEEP` after a wake-up, so the sleep
                // has a limit.
                futex::sleep(word, ASLEEP, Some(left.unwrap_or(LOOKING).min(LOOKING)));
            }
        }
    }

    fn reply(
        &self,
        direction: Direction<'_>,
        taken: CallSlot,
        state: u32,
    ) -> Option<Result<Vec<u8>, CallError>> {
        match state {
            IN_SLOT if taken.slot < SLOTS => {
                let (size, is_error) = direction.slot_reply(taken.slot);
                let size = size.load(Ordering::Relaxed) as usize;
                let content = direction.read_slot(taken.slot, size);
                Some(match is_error.load(Ordering::Relaxed) {
                    0 => Ok(content),
                    _ => Err(CallError::Failed(text(&content))),
                })
            }
            IN_STREAM if self.place(taken.slot).streamed.lock().reply.is_some() => {
                let reply = self.place(taken.slot).streamed.lock().reply.take();
                reply.map(|reply| reply.map_err(CallError::Failed))
            }
            // The connection is over, which the caller checks, or the other side wrote an invalid
            // state.
            _ => {
                let word = self.state(direction, taken.slot);
                let _ = word.compare_exchange(state, PENDING, Ordering::AcqRel, Ordering::Relaxed);
                None
            }
        }
    }

    /// Stores a reply from the stream.
    pub(super) fn replied(
        &self,
        direction: Direction<'_>,
        identity: u64,
        reply: Result<Vec<u8>, String>,
    ) -> Result<(), EndReason> {
        let slot = (identity & u64::from(u32::MAX)) as usize;
        let unexpected = || {
            EndReason::Protocol(format!("a reply to call {identity:#x}, which is not under way"))
        };
        let mut streamed = self.place_of(slot).ok_or_else(unexpected)?.streamed.lock();
        if streamed.awaited != Some(identity) || streamed.reply.is_some() {
            return Err(unexpected());
        }
        streamed.reply = Some(reply);
        drop(streamed);
        set(self.state(direction, slot), IN_STREAM);
        Ok(())
    }

    /// Wakes all waiting callers at the end of the connection.
    pub(super) fn give_up(&self, direction: Direction<'_>) {
        let places = self.places.iter().filter_map(OnceLock::get).flatten();
        for (slot, place) in places.enumerate() {
            if place.streamed.lock().awaited.is_some() {
                // The word is always woken: the other side may have died between its reply and the
                // wake-up.
                let word = self.state(direction, slot);
                for pending in [PENDING, ASLEEP] {
                    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                    let _ = word.compare_exchange(pending, LOST, success, failure);
                }
                futex::wake(word, i32::MAX as u32);
            }
        }
    }
}

/// Interval at which a sleeping caller checks whether the connection is over, in case it is never
/// woken.
const LOOKING: Duration = Duration::from_secs(1);

/// Stores the reply to the other side's call in its slot, and runs `before` just before the reply
/// becomes visible. Returns false if the call has no slot in shared memory, or the reply is too
/// large for a slot.
pub(super) fn reply_in_slot(
    direction: Direction<'_>,
    identity: u64,
    reply: &Result<Vec<u8>, String>,
    before: impl FnOnce(),
) -> Result<bool, EndReason> {
    let slot = (identity & u64::from(u32::MAX)) as usize;
    if (SLOTS..MOST_CALLS).contains(&slot) {
        return Ok(false);
    }
    if slot >= MOST_CALLS {
        return Err(EndReason::Protocol(format!("a call with the identity {identity:#x}")));
    }
    let (content, is_error) = match reply {
        Ok(content) => (content.as_slice(), 0),
        Err(text) => (text.as_bytes(), 1),
    };
    if content.len() > SLOT_CONTENT {
        return Ok(false);
    }
    direction.write_slot(slot, content);
    let (size, error) = direction.slot_reply(slot);
    size.store(content.len() as u32, Ordering::Relaxed);
    error.store(is_error, Ordering::Relaxed);
    before();
    set(direction.slot_state(slot), IN_SLOT);
    Ok(true)
}

/// Returns whether a waiting caller must check the slot.
fn is_done(state: u32) -> bool {
    !matches!(state, PENDING | ASLEEP)
}

fn set(word: &AtomicU32, state: u32) {
    if word.swap(state, Ordering::AcqRel) == ASLEEP {
        futex::wake(word, 1);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
