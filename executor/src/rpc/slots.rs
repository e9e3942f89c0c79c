//! Where callers wait for their answers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::futex;
use super::link::{Direction, MOST_CALLS, SLOT_CONTENT, SLOTS};
use super::{CallError, Ended};

/// Nobody uses it.
const FREE: u32 = 0;
/// A call is under way.
const PENDING: u32 = 1;
/// A call is under way, and who made it sleeps.
const ASLEEP: u32 = 2;
/// The answer is in the slot.
const IN_SLOT: u32 = 3;
/// The answer came over the stream.
const IN_STREAM: u32 = 4;
/// The connection is over.
const LOST: u32 = 5;

/// The slots of one side's calls: those in shared memory, then, by so many at a time, further ones of this process, so that no call
/// waits for another to end.
#[derive(Debug)]
pub(super) struct Slots {
    free: Mutex<Free>,
    places: [OnceLock<Box<[Place]>>; MOST_CALLS / SLOTS],
}

/// Slots that no call has.
#[derive(Debug)]
struct Free {
    shared: Vec<usize>,
    further: Vec<usize>,
    /// Slots that there are, with those in use.
    made: usize,
}

/// What a slot has in this process alone.
#[derive(Debug, Default)]
struct Place {
    /// The state of a slot that is not in shared memory.
    state: AtomicU32,
    streamed: Mutex<Streamed>,
}

/// An answer over the stream.
#[derive(Debug, Default)]
struct Streamed {
    /// The identity of the call that is under way.
    awaited: Option<u64>,
    calls: u32,
    answer: Option<Result<Vec<u8>, String>>,
}

/// A slot that a call has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    slot: usize,
    /// Says which call it is: no two that are under way have the same.
    pub(super) identity: u64,
}

impl Slots {
    pub(super) fn new() -> Self {
        let shared = (0..SLOTS).rev().collect();
        let free = Mutex::new(Free { shared, further: Vec::new(), made: SLOTS });
        let slots = Self { free, places: [const { OnceLock::new() }; MOST_CALLS / SLOTS] };
        slots.make(0);
        slots
    }

    /// Takes a slot for a call. Does not block.
    ///
    /// # Errors
    /// [`CallError::TooMany`]; why the connection is over, as `ended` says.
    pub(super) fn take(
        &self,
        direction: Direction<'_>,
        ended: &dyn Fn() -> Option<Ended>,
    ) -> Result<Taken, CallError> {
        if let Some(ended) = ended() {
            return Err(ended.into());
        }
        let slot = self.free_slot().ok_or(CallError::TooMany { most: MOST_CALLS })?;
        let mut streamed = self.place(slot).streamed.lock();
        streamed.calls = streamed.calls.wrapping_add(1);
        let identity = slot as u64 | u64::from(streamed.calls) << 32;
        streamed.awaited = Some(identity);
        self.state(direction, slot).store(PENDING, Ordering::Relaxed);
        Ok(Taken { slot, identity })
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

    /// The place of a slot, if there is one.
    fn place_of(&self, slot: usize) -> Option<&Place> {
        self.places.get(slot / SLOTS)?.get()?.get(slot % SLOTS)
    }

    fn place(&self, slot: usize) -> &Place {
        self.place_of(slot).expect("a slot that was taken has a place")
    }

    fn state<'a>(&'a self, direction: Direction<'a>, slot: usize) -> &'a AtomicU32 {
        if slot < SLOTS { direction.slot_state(slot) } else { &self.place(slot).state }
    }

    /// Whether a call is under way.
    pub(super) fn are_in_use(&self) -> bool {
        let free = self.free.lock();
        free.shared.len() + free.further.len() < free.made
    }

    /// Gives a slot back.
    pub(super) fn free(&self, direction: Direction<'_>, taken: Taken) {
        let mut streamed = self.place(taken.slot).streamed.lock();
        streamed.awaited = None;
        streamed.answer = None;
        drop(streamed);
        self.state(direction, taken.slot).store(FREE, Ordering::Relaxed);
        let mut free = self.free.lock();
        let free = if taken.slot < SLOTS { &mut free.shared } else { &mut free.further };
        free.push(taken.slot);
    }

    /// Says, each time it is asked, whether a call is answered or the connection over.
    pub(super) fn look<'a>(
        &'a self,
        direction: Direction<'a>,
        taken: Taken,
        ended: &'a dyn Fn() -> Option<Ended>,
    ) -> impl FnMut() -> bool + use<'a> {
        let word = self.state(direction, taken.slot);
        let mut looks = 0_u32;
        move || {
            looks += 1;
            is_done(futex::load(word)) || looks.is_multiple_of(64) && ended().is_some()
        }
    }

    /// Blocks until a call is answered, or the connection over, or for so long at most: `None` then.
    pub(super) fn wait(
        &self,
        direction: Direction<'_>,
        taken: Taken,
        deadline: Option<Instant>,
        ended: &dyn Fn() -> Option<Ended>,
    ) -> Option<Result<Vec<u8>, CallError>> {
        let word = self.state(direction, taken.slot);
        loop {
            let state = futex::load(word);
            if is_done(state)
                && let Some(answer) = self.answer(direction, taken, state)
            {
                return Some(answer);
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
                // The other side can write that it sleeps over what would wake it.
                futex::sleep(word, ASLEEP, Some(left.unwrap_or(LOOKING).min(LOOKING)));
            }
        }
    }

    fn answer(
        &self,
        direction: Direction<'_>,
        taken: Taken,
        state: u32,
    ) -> Option<Result<Vec<u8>, CallError>> {
        match state {
            IN_SLOT if taken.slot < SLOTS => {
                let (size, is_error) = direction.slot_answer(taken.slot);
                let size = size.load(Ordering::Relaxed) as usize;
                let content = direction.read_slot(taken.slot, size);
                Some(match is_error.load(Ordering::Relaxed) {
                    0 => Ok(content),
                    _ => Err(CallError::Failed(text(&content))),
                })
            }
            IN_STREAM if self.place(taken.slot).streamed.lock().answer.is_some() => {
                let answer = self.place(taken.slot).streamed.lock().answer.take();
                answer.map(|answer| answer.map_err(CallError::Failed))
            }
            // The connection is over, which the caller looks for, or the other side writes what it must not.
            _ => {
                let word = self.state(direction, taken.slot);
                let _ = word.compare_exchange(state, PENDING, Ordering::AcqRel, Ordering::Relaxed);
                None
            }
        }
    }

    /// Takes an answer that came over the stream.
    pub(super) fn answered(
        &self,
        direction: Direction<'_>,
        identity: u64,
        answer: Result<Vec<u8>, String>,
    ) -> Result<(), Ended> {
        let slot = (identity & u64::from(u32::MAX)) as usize;
        let unexpected =
            || Ended::Protocol(format!("an answer to call {identity:#x}, which is not under way"));
        let mut streamed = self.place_of(slot).ok_or_else(unexpected)?.streamed.lock();
        if streamed.awaited != Some(identity) || streamed.answer.is_some() {
            return Err(unexpected());
        }
        streamed.answer = Some(answer);
        drop(streamed);
        set(self.state(direction, slot), IN_STREAM);
        Ok(())
    }

    /// The connection is over: wakes all who wait.
    pub(super) fn give_up(&self, direction: Direction<'_>) {
        let places = self.places.iter().filter_map(OnceLock::get).flatten();
        for (slot, place) in places.enumerate() {
            if place.streamed.lock().awaited.is_some() {
                // Always woken: the other side may have died between its answer and the waking for it.
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

/// How long who sleeps does not look whether the connection is over, should nobody wake it.
const LOOKING: Duration = Duration::from_secs(1);

/// Answers a call of the other side in its slot, and does `before` just before it is to be seen. `false` if it has none in shared
/// memory, or the answer is too large for that.
pub(super) fn answer_in_slot(
    direction: Direction<'_>,
    identity: u64,
    answer: &Result<Vec<u8>, String>,
    before: impl FnOnce(),
) -> Result<bool, Ended> {
    let slot = (identity & u64::from(u32::MAX)) as usize;
    if (SLOTS..MOST_CALLS).contains(&slot) {
        return Ok(false);
    }
    if slot >= MOST_CALLS {
        return Err(Ended::Protocol(format!("a call with the identity {identity:#x}")));
    }
    let (content, is_error) = match answer {
        Ok(content) => (content.as_slice(), 0),
        Err(text) => (text.as_bytes(), 1),
    };
    if content.len() > SLOT_CONTENT {
        return Ok(false);
    }
    direction.write_slot(slot, content);
    let (size, error) = direction.slot_answer(slot);
    size.store(content.len() as u32, Ordering::Relaxed);
    error.store(is_error, Ordering::Relaxed);
    before();
    set(direction.slot_state(slot), IN_SLOT);
    Ok(true)
}

/// Whether whoever waits has something to do.
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
