//! Turns to run constructors: one at a time, as for libraries that are opened. Whose turn it is the controller knows.

use std::cell::Cell;

use crate::thread;

thread_local! {
    /// The turn for which this thread runs constructors, if it is not its own.
    static FOR: Cell<u64> = const { Cell::new(0) };
}

/// What a turn is known by that the calling thread takes: a number that no other thread of the process has, or that of the turn for which
/// it runs constructors.
pub fn turn() -> u64 {
    match FOR.get() {
        0 => thread::number(),
        turn => turn,
    }
}

/// Does something for a turn that another thread, perhaps of another process, has taken.
pub(crate) fn in_turn<T>(turn: u64, run: impl FnOnce() -> T) -> T {
    let before = FOR.replace(turn);
    let result = run();
    FOR.set(before);
    result
}
