//! Parallel work on many objects.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::Result;

/// Calls `f` with every item, on up to `threads` threads. Results are in the order of the items; of
/// several errors the first is returned.
pub(super) fn parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    f: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        while let Some((index, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?)))
        {
            let result = f(item);
            done.lock().push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            // If a thread cannot be started, the remaining threads do its work.
            _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

pub(super) fn parallel_mut_map<T: Send, R: Send>(
    threads: usize,
    items: &mut [T],
    f: impl Fn(&mut T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter_mut().map(f).collect();
    }
    // Each item is taken by one thread, so the locks are never contended.
    let items: Vec<Mutex<&mut T>> = items.iter_mut().map(Mutex::new).collect();
    parallel(threads, &items, |item| f(&mut item.lock()))
}

pub(super) fn parallel_mut<T: Send>(
    threads: usize,
    items: &mut [T],
    f: impl Fn(&mut T) -> Result<()> + Sync,
) -> Result<()> {
    parallel_mut_map(threads, items, f).map(drop)
}
