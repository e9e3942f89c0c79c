//! Owners of the initializer lock, under which constructors run one owner at a time, as for opened
//! libraries. The controller keeps the lock.

use std::cell::Cell;

use crate::thread;

thread_local! {
    /// The lock owner for which this thread runs constructors; 0 for the thread itself.
    static FOR: Cell<u64> = const { Cell::new(0) };
}

/// Returns the calling thread's number as a lock owner. It is unique among the process's threads,
/// or the number of the owner for which the thread runs constructors.
pub fn lock_owner() -> u64 {
    match FOR.get() {
        0 => thread::number(),
        lock_owner => lock_owner,
    }
}

/// Runs a function for another lock owner, perhaps a thread of another process.
pub(crate) fn as_lock_owner<T>(lock_owner: u64, run: impl FnOnce() -> T) -> T {
    let before = FOR.replace(lock_owner);
    let result = run();
    FOR.set(before);
    result
}
