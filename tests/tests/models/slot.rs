//! `Slot`, which holds the object of a handle of the C API, under a model checker. The models cover
//! all interleavings of a few threads with at most three preemptions, and all orders that the
//! memory model permits.

use crate::Model;
use crate::slot_source::Slot;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The models, with their names.
pub(crate) const MODELS: &[(&str, Model)] = &[
    ("an object is taken out once, and not while a thread looks at it", looked_at),
    ("of two threads that destroy an object one does", two_destroyers),
    ("clearing a place waits for no thread, and the last to look takes the object", cleared),
    ("a look for an earlier object does not see the next", next_object),
];

/// A value whose accesses the model checks against all others.
type Watched = UnsafeCell<u32>;

fn filled(value: u32) -> Arc<Slot<Watched>> {
    let slot = Arc::new(Slot::empty());
    // SAFETY: the slot is new.
    assert_eq!(unsafe { slot.fill(UnsafeCell::new(value)) }, 0);
    slot
}

/// Looks up the object of a generation and reads it. Returns whether this call had to drop the
/// object.
fn look(slot: &Slot<Watched>, generation: u32, value: u32) -> bool {
    if slot.look(generation) {
        // SAFETY: this call holds the lookup; the model reports a concurrent write.
        unsafe { slot.object() }.with(|at| assert_eq!(unsafe { *at }, value));
    }
    dropped(slot.leave())
}

/// Destroys the object of the first generation. Returns whether this call did, and whether it had
/// to drop the object.
fn destroy(slot: &Slot<Watched>) -> (bool, bool) {
    let is_there = slot.look(0);
    let is_destroyed = is_there && slot.destroy();
    (is_destroyed, dropped(slot.leave()))
}

/// Writes to an object, like its drop.
fn dropped(object: Option<Watched>) -> bool {
    // SAFETY: the model reports a concurrent access.
    object.map(|object| object.with_mut(|at| unsafe { *at = 0 })).is_some()
}

fn looked_at() {
    let slot = filled(7);
    let lookers = [0, 1].map(|_| {
        let slot = Arc::clone(&slot);
        thread::spawn(move || look(&slot, 0, 7))
    });
    let (is_destroyed, is_mine) = destroy(&slot);
    let theirs = lookers.map(|looker| looker.join().unwrap());
    assert!(is_destroyed);
    assert_eq!(usize::from(is_mine) + theirs.into_iter().filter(|taken| *taken).count(), 1);
}

fn two_destroyers() {
    let slot = filled(7);
    let other = thread::spawn({
        let slot = Arc::clone(&slot);
        move || destroy(&slot)
    });
    let mine = destroy(&slot);
    let theirs = other.join().unwrap();
    assert!(mine.0 != theirs.0, "destroyed by one");
    assert!(mine.1 != theirs.1, "taken out by one");
}

fn cleared() {
    let slot = filled(7);
    let looker = thread::spawn({
        let slot = Arc::clone(&slot);
        move || look(&slot, 0, 7)
    });
    let is_mine = dropped(slot.clear());
    assert!(is_mine != looker.join().unwrap());
    assert!(!slot.look(0));
}

fn next_object() {
    let slot = filled(7);
    let looker = thread::spawn({
        let slot = Arc::clone(&slot);
        move || look(&slot, 0, 7)
    });
    if destroy(&slot).1 {
        // SAFETY: the object was taken out, so the place is empty and belongs to this call.
        assert_eq!(unsafe { slot.fill(UnsafeCell::new(8)) }, 1);
        assert!(!look(&slot, 1, 8));
    }
    looker.join().unwrap();
}
