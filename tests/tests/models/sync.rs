//! Primitives of the model checker that replace the primitives of the library, the C API and the
//! OpenMP library, with the same methods.

use std::ops::{Deref, DerefMut};

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence,
};

/// The invariant of guards outside `Condvar::wait`.
const HELD: &str = "a guard holds the lock";

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

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(HELD)
    }
}

pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar(loom::sync::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect(HELD);
        guard.0 = Some(self.0.wait(held).unwrap());
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
