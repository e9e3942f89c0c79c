//! Turns to run constructors: one at a time, as for libraries that are opened. Whose turn it is the controller knows.

use std::cell::Cell;

use crate::thread;

thread_local! {
    /// The turn for which this thread runs constructors, if it is not its own.
    static FOR: Cell<u64> = const { Cell::new(0) };
}

/// What a turn is known by that the calling thread takes: a number that no other thread of the process has, or that of the turn for which
/// it runs constructors.
pub fn lock_owner() -> u64 {
    match FOR.get() {
        0 => thread::number(),
        lock_owner => lock_owner,
    }
}

/// Does something for a turn that another thread, perhaps of another process, has taken.
pub(crate) fn as_lock_owner<T>(lock_owner: u64, run: impl FnOnce() -> T) -> T {
    let before = FOR.replace(lock_owner);
    let result = run();
    FOR.set(before);
    result
}
