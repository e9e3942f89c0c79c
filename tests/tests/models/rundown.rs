//! `Rundown`, which protects every handle of the host, under a model checker. The models cover all
//! interleavings of a few threads with at most three preemptions, and all orders that the memory
//! model permits.

use crate::Model;
use crate::rundown_source::Rundown;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The models, with their names.
pub(crate) const MODELS: &[(&str, Model)] = &[
    ("a value is never taken while a thread is inside", taken_while_inside),
    ("of two takers one gets the value", two_takers),
    ("the taker also waits for threads inside another shard", other_shard),
];

/// A value whose accesses the model checks against all others.
type Watched = UnsafeCell<u32>;

fn read<const SHARDS: usize>(rundown: &Rundown<Watched, SHARDS>, hint: usize) -> bool {
    rundown.enter(hint).map(|inside| inside.with(read_at)).is_some()
}

fn read_at(value: *const u32) {
    // SAFETY: the model reports a concurrent write.
    assert_eq!(unsafe { *value }, 7);
}

/// Takes the value and writes to it, like a destroyer.
fn destroy<const SHARDS: usize>(rundown: &Rundown<Watched, SHARDS>) -> bool {
    let taken = rundown.take();
    // SAFETY: as above.
    taken.map(|value| value.with_mut(|value| unsafe { *value = 0 })).is_some()
}

fn taken_while_inside() {
    let rundown: Arc<Rundown<Watched>> = Arc::new(Rundown::new(UnsafeCell::new(7)));
    let user = thread::spawn({
        let rundown = Arc::clone(&rundown);
        move || {
            read(&rundown, 0);
            read(&rundown, 0);
        }
    });
    assert!(destroy(&rundown));
    assert!(!read(&rundown, 0));
    user.join().unwrap();
}

fn two_takers() {
    let rundown: Arc<Rundown<Watched>> = Arc::new(Rundown::new(UnsafeCell::new(7)));
    let other = thread::spawn({
        let rundown = Arc::clone(&rundown);
        move || destroy(&rundown)
    });
    let mine = destroy(&rundown);
    assert!(mine != other.join().unwrap());
}

fn other_shard() {
    let rundown: Arc<Rundown<Watched, 2>> = Arc::new(Rundown::new(UnsafeCell::new(7)));
    let users = [0, 1].map(|hint| {
        let rundown = Arc::clone(&rundown);
        thread::spawn(move || read(&rundown, hint))
    });
    assert!(destroy(&rundown));
    users.into_iter().for_each(|user| assert!(user.join().is_ok()));
}
