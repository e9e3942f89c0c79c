//! The steps of a launch that order its items. Without a checked launch on this thread, they do
//! nothing.

use super::session::Session;
use crate::kernel::abi::Work;
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Whether this thread runs the checked launch.
    static IS_CHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`, the code of a checked launch, on this thread.
pub(crate) fn checked<T>(body: impl FnOnce() -> T) -> T {
    IS_CHECKED.set(true);
    let result = body();
    IS_CHECKED.set(false);
    result
}

/// Returns whether this thread runs a checked launch.
#[inline]
pub(crate) fn is_checked() -> bool {
    IS_CHECKED.get()
}

#[inline]
fn with(body: impl FnOnce(&mut Session)) {
    if IS_CHECKED.get() {
        // SAFETY: this thread runs the launch, and the caller is no code of the session.
        if let Some(session) = unsafe { Session::current() } {
            body(session);
        }
    }
}

/// Notes that the run of an item with a stack of its own goes on.
#[inline]
pub(crate) fn turn_to_item(item: usize, work: &Work, stack: &Range<u64>) {
    with(|session| session.turn_to_item(item, work, stack.clone()));
}

/// Notes that all items of the group have reached a barrier.
#[inline]
pub(crate) fn pass_barrier(items: usize) {
    with(|session| {
        session.compare_waits(0..items, |_| true);
        session.pass_barrier();
    });
}

/// Notes that all items of the group that have not returned have reached a barrier.
#[inline]
pub(crate) fn pass_barrier_of_rest(items: usize, is_active: impl Fn(usize) -> bool) {
    with(|session| {
        session.compare_waits(0..items, is_active);
        session.pass_barrier();
    });
}

/// Reports active items of a range that wait for each other at different lines.
#[inline]
pub(crate) fn compare_waits(items: Range<usize>, is_active: impl Fn(usize) -> bool) {
    with(|session| session.compare_waits(items, is_active));
}

/// Notes that items of a sub-group, `lanes`, have reached an exchange. Items that are present by
/// chance may have reached it at different lines.
#[inline]
pub(crate) fn pass_exchange(subgroup: usize, lanes: u32) {
    with(|session| session.pass_exchange(subgroup, lanes));
}
