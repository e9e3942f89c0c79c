//! `RangeIndex`, which translates the addresses of mapped ranges, under a model checker. The models
//! cover all interleavings of a few threads with at most [`PREEMPTIONS`] or [`FEW_PREEMPTIONS`]
//! preemptions, and all orders that the memory model permits.

use crate::Model;
use crate::index_source::{Range, RangeIndex};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Limit of preemptions of the models. A lookup loads old and new words without any.
pub(crate) const PREEMPTIONS: usize = 2;

/// The models, with their names.
pub(crate) const MODELS: &[(&str, Model)] = &[
    ("a lookup finds the first range of an index, or nothing", first),
    ("two lookups find the first range of an index, or nothing", two_readers),
    ("a lookup that overlaps two changes waits for the lock", overlapped),
    ("a lookup finds a range before or after its replacement, not a mixture", replaced),
    ("a lookup finds a range whose row moves", moved),
    ("a lookup finds the ranges of a leaf that is split", split),
    ("a lookup finds a range while its tree grows by a level", grown),
    ("two writers insert one after the other", two_writers),
];

/// Limit of preemptions of the models with long changes.
pub(crate) const FEW_PREEMPTIONS: usize = 1;

/// The models with long changes.
pub(crate) const LONG_MODELS: &[(&str, Model)] = &[
    ("a lookup finds the last range of a new leaf before its own", split_before),
    ("a lookup finds a range while its leaf is merged and loses its parent", merged),
    ("a lookup in a leaf that is reused for another range begins again", reused),
    ("a lookup after a removal does not find the range", removed),
];

/// An index with small nodes, in which a lookup has one try without the lock.
type Index<const L: usize = 2, const I: usize = 2, const TRIES: usize = 1> =
    RangeIndex<(), L, I, TRIES>;

/// Returns a range whose words belong together.
fn range(begin: u64, version: u64) -> Range {
    Range { begin, end: begin + 4, target: 1000 * (begin + 1) + version, entry: begin ^ version }
}

/// Creates an index of ranges in the order of their insertion.
fn index<const L: usize, const I: usize, const TRIES: usize>(
    begins: &[u64],
) -> Arc<Index<L, I, TRIES>> {
    let index = Index::new(());
    begins.iter().for_each(|begin| assert_eq!(index.lock().insert(range(*begin, 0)), None));
    Arc::new(index)
}

/// Runs a function on a thread of its own, beside the caller.
fn beside<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    run: impl FnOnce(&T) + 'static,
) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(&shared))
}

/// Checks that the range of this begin is found.
fn find<const L: usize, const I: usize, const TRIES: usize>(
    index: &Index<L, I, TRIES>,
    begin: u64,
) {
    assert_eq!(index.translate(begin + 1, begin + 2), Some(range(begin, 0).target + 1));
}

/// Returns whether the range of this begin is found, which may be absent.
fn find_any<const L: usize, const I: usize, const TRIES: usize>(
    index: &Index<L, I, TRIES>,
    begin: u64,
) -> bool {
    let found = index.translate(begin + 1, begin + 2);
    assert!(found.is_none_or(|target| target == range(begin, 0).target + 1), "{found:?}");
    found.is_some()
}

fn first() {
    let index = index::<2, 2, 1>(&[]);
    let reader = beside(&index, |index| {
        let is_found = find_any(index, 10);
        assert!(find_any(index, 10) || !is_found);
    });
    assert_eq!(index.lock().insert(range(10, 0)), None);
    find(&index, 10);
    reader.join().unwrap();
}

fn two_readers() {
    let index = index::<2, 2, 1>(&[]);
    let readers = [0, 1].map(|_| beside(&index, |index| _ = find_any(index, 10)));
    assert_eq!(index.lock().insert(range(10, 0)), None);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    find(&index, 10);
}

fn overlapped() {
    let index = index::<2, 2, 2>(&[]);
    let reader = beside(&index, |index| {
        let (found, _) = index.around(10);
        let versions = [0, 1].map(|version| Some(range(10, version)));
        assert!(found.is_none() || versions.contains(&found), "{found:?}");
    });
    assert_eq!(index.lock().insert(range(10, 0)), None);
    assert_eq!(index.lock().insert(range(10, 1)), Some(range(10, 0)));
    reader.join().unwrap();
}

fn replaced() {
    let index = index::<2, 2, 1>(&[10]);
    let reader = beside(&index, |index| {
        let versions = [0, 1].map(|_| {
            let found = index.around(11);
            let version = [0, 1].into_iter().find(|version| found.0 == Some(range(10, *version)));
            version.unwrap_or_else(|| panic!("{found:?}"))
        });
        assert!(versions.is_sorted());
    });
    assert_eq!(index.lock().insert(range(10, 1)), Some(range(10, 0)));
    reader.join().unwrap();
}

fn moved() {
    let index = index::<2, 2, 1>(&[20]);
    let reader = beside(&index, |index| find(index, 20));
    index.lock().insert(range(10, 0));
    reader.join().unwrap();
}

fn split() {
    let index = index::<2, 2, 1>(&[10, 30]);
    let reader = beside(&index, |index| {
        let (floor, above) = index.around(11);
        assert_eq!(floor, Some(range(10, 0)));
        assert!([20, 30].map(|begin| Some(range(begin, 0))).contains(&above), "{above:?}");
    });
    index.lock().insert(range(20, 0));
    reader.join().unwrap();
}

fn grown() {
    let index = index::<2, 2, 1>(&[0, 10, 20]);
    let reader = beside(&index, |index| find(index, 10));
    index.lock().insert(range(30, 0));
    reader.join().unwrap();
}

fn two_writers() {
    let index = index::<2, 2, 1>(&[10, 20]);
    let other = beside(&index, |index| _ = index.lock().insert(range(0, 0)));
    index.lock().insert(range(30, 0));
    other.join().unwrap();
    [0, 10, 20, 30].iter().for_each(|begin| find(&index, *begin));
}

fn split_before() {
    let index = index::<2, 3, 1>(&[0, 10, 30, 5]);
    // The bound of the last leaf stays the key of the removed range.
    assert_eq!(index.lock().remove(10), Some(range(10, 0)));
    let reader = beside(&index, |index| {
        assert_eq!(index.around(20), (Some(range(5, 0)), Some(range(30, 0))));
    });
    index.lock().insert(range(3, 0));
    reader.join().unwrap();
}

fn merged() {
    let index = index::<2, 2, 1>(&[0, 10, 20]);
    let reader = beside(&index, |index| find(index, 20));
    assert_eq!(index.lock().remove(0), Some(range(0, 0)));
    reader.join().unwrap();
}

fn reused() {
    let index = index::<2, 2, 1>(&[0, 10, 5]);
    let reader = beside(&index, |index| _ = find_any(index, 10));
    // The merge frees the node of the removed range, and the split takes it for another range.
    assert_eq!(index.lock().remove(10), Some(range(10, 0)));
    index.lock().insert(range(2, 0));
    reader.join().unwrap();
}

fn removed() {
    let shared = Arc::new((Index::<2, 2, 1>::new(()), AtomicBool::new(false)));
    [10, 20].iter().for_each(|begin| _ = shared.0.lock().insert(range(*begin, 0)));
    let reader = beside(&shared, |(index, is_removed)| {
        let is_removed = is_removed.load(Ordering::Acquire);
        assert!(!find_any(index, 10) || !is_removed);
    });
    shared.0.lock().remove(10);
    shared.1.store(true, Ordering::Release);
    shared.0.lock().remove(20);
    reader.join().unwrap();
}
