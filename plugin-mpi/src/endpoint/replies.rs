//! The places for replies.

use parking_lot::Mutex;

use super::MOST_IN_MESSAGE;

/// The places for the replies of one process, made when they are needed.
#[derive(Default)]
pub(super) struct Replies {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: Vec<Slot>,
    made: u32,
}

/// A place for a reply.
pub(super) struct Slot {
    pub(super) number: u32,
    pub(super) buffer: Box<[u8]>,
}

/// Greatest number of calls under way to one process.
pub(super) const MOST_CALLS: usize = 1 << 12;

impl Replies {
    /// Takes a place; `None` if [`MOST_CALLS`] are in use.
    pub(super) fn take(&self) -> Option<Slot> {
        let mut state = self.state.lock();
        if let Some(slot) = state.free.pop() {
            return Some(slot);
        }
        if state.made as usize == MOST_CALLS {
            return None;
        }
        let number = state.made;
        state.made += 1;
        drop(state);
        Some(Slot { number, buffer: vec![0; MOST_IN_MESSAGE].into_boxed_slice() })
    }

    pub(super) fn give_back(&self, slot: Slot) {
        self.state.lock().free.push(slot);
    }
}
