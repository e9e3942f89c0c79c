//! The primitives of the model checker in place of those of the library and the C API, with the
//! same methods.

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// A guard that holds the lock, except while its condition variable waits.
pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap()))
    }
}

pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(loom::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("it holds the lock");
        guard.0 = Some(self.0.wait(held).unwrap());
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
