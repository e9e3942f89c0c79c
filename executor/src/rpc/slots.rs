//! Where callers wait for their answers.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::futex;
use super::link::{Direction, SLOT_CONTENT, SLOTS};
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

/// The slots of one side's calls.
#[derive(Debug)]
pub(super) struct Slots {
    free: Mutex<Vec<usize>>,
    freed: Condvar,
    streamed: Vec<Mutex<Streamed>>,
}

/// What a slot has in this process alone.
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
        Self {
            free: Mutex::new((0..SLOTS).rev().collect()),
            freed: Condvar::new(),
            streamed: (0..SLOTS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes a slot for a call. Blocks while all are in use, until `ended` says why that is in vain.
    pub(super) fn take(
        &self,
        direction: Direction<'_>,
        ended: &dyn Fn() -> Option<Ended>,
    ) -> Result<Taken, Ended> {
        let mut free = self.free.lock();
        let slot = loop {
            if let Some(ended) = ended() {
                return Err(ended);
            }
            match free.pop() {
                Some(slot) => break slot,
                None => drop(self.freed.wait_for(&mut free, LOOKING)),
            }
        };
        drop(free);
        let mut streamed = self.streamed[slot].lock();
        streamed.calls = streamed.calls.wrapping_add(1);
        let identity = slot as u64 | u64::from(streamed.calls) << 32;
        streamed.awaited = Some(identity);
        direction.slot_state(slot).store(PENDING, Ordering::Relaxed);
        Ok(Taken { slot, identity })
    }

    /// Whether a call is under way.
    pub(super) fn are_in_use(&self) -> bool {
        self.free.lock().len() < SLOTS
    }

    /// Gives a slot back.
    pub(super) fn free(&self, direction: Direction<'_>, taken: Taken) {
        let mut streamed = self.streamed[taken.slot].lock();
        streamed.awaited = None;
        streamed.answer = None;
        drop(streamed);
        direction.slot_state(taken.slot).store(FREE, Ordering::Relaxed);
        self.free.lock().push(taken.slot);
        self.freed.notify_one();
    }

    /// Says, each time it is asked, whether a call is answered or the connection over.
    pub(super) fn look<'a>(
        &self,
        direction: Direction<'a>,
        taken: Taken,
        ended: &'a dyn Fn() -> Option<Ended>,
    ) -> impl FnMut() -> bool + use<'a> {
        let word = direction.slot_state(taken.slot);
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
        let word = direction.slot_state(taken.slot);
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
            IN_SLOT => {
                let (size, is_error) = direction.slot_answer(taken.slot);
                let size = size.load(Ordering::Relaxed) as usize;
                let content = direction.read_slot(taken.slot, size);
                Some(match is_error.load(Ordering::Relaxed) {
                    0 => Ok(content),
                    _ => Err(CallError::Failed(text(&content))),
                })
            }
            IN_STREAM if self.streamed[taken.slot].lock().answer.is_some() => {
                let answer = self.streamed[taken.slot].lock().answer.take();
                answer.map(|answer| answer.map_err(CallError::Failed))
            }
            // The connection is over, which the caller looks for, or the other side writes what it must not.
            _ => {
                let word = direction.slot_state(taken.slot);
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
        let mut streamed = self.streamed.get(slot).ok_or_else(unexpected)?.lock();
        if streamed.awaited != Some(identity) || streamed.answer.is_some() {
            return Err(unexpected());
        }
        streamed.answer = Some(answer);
        drop(streamed);
        set(direction, slot, IN_STREAM);
        Ok(())
    }

    /// The connection is over: wakes all who wait.
    pub(super) fn give_up(&self, direction: Direction<'_>) {
        for (slot, streamed) in self.streamed.iter().enumerate() {
            if streamed.lock().awaited.is_some() {
                // Always woken: the other side may have died between its answer and the waking for it.
                let word = direction.slot_state(slot);
                for pending in [PENDING, ASLEEP] {
                    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                    let _ = word.compare_exchange(pending, LOST, success, failure);
                }
                futex::wake(word, i32::MAX as u32);
            }
        }
        drop(self.free.lock());
        self.freed.notify_all();
    }
}

/// How long who sleeps does not look whether the connection is over, should nobody wake it.
const LOOKING: Duration = Duration::from_secs(1);

/// Answers a call of the other side in its slot, and does `before` just before it is to be seen. `false` if the answer is too large
/// for that.
pub(super) fn answer_in_slot(
    direction: Direction<'_>,
    identity: u64,
    answer: &Result<Vec<u8>, String>,
    before: impl FnOnce(),
) -> Result<bool, Ended> {
    let slot = (identity & u64::from(u32::MAX)) as usize;
    if slot >= SLOTS {
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
    set(direction, slot, IN_SLOT);
    Ok(true)
}

/// Whether whoever waits has something to do.
fn is_done(state: u32) -> bool {
    !matches!(state, PENDING | ASLEEP)
}

fn set(direction: Direction<'_>, slot: usize, state: u32) {
    let word = direction.slot_state(slot);
    if word.swap(state, Ordering::AcqRel) == ASLEEP {
        futex::wake(word, 1);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
