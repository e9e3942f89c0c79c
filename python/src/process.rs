//! The process: its host, and the two ends of its use, a fork and the interpreter's exit.

use crate::errors::{Raise, raised};
use crate::log;
use longshore::{Error, ErrorCode, Host};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The host, created by its first use.
static HOST: OnceLock<Held<Arc<Host>>> = OnceLock::new();
/// Held while the host is created.
static CREATION: Mutex<()> = Mutex::new(());
/// Whether this process is the child of a process that had the host at the time of the fork.
static IS_FORKED: AtomicBool = AtomicBool::new(false);
/// Whether the interpreter ends, and devices were closed.
static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// An object of the library. Its drop does nothing in a forked child: the threads that it would
/// wait for exist in the parent alone. It does nothing at the interpreter's end either, where it
/// would wait for work that the user has given up.
pub(crate) struct Held<T>(ManuallyDrop<T>);

impl<T> Held<T> {
    pub(crate) fn new(object: T) -> Held<T> {
        Held(ManuallyDrop::new(object))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if may_drop() {
            // SAFETY: the object is dropped here once, and no code uses it after `drop`.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// Notes that the interpreter ends.
pub(crate) fn end() {
    IS_ENDED.store(true, Ordering::Relaxed);
}

/// Returns whether objects of the library may be dropped, which can wait for work.
pub(crate) fn may_drop() -> bool {
    !is_forked() && !IS_ENDED.load(Ordering::Relaxed)
}

/// Returns whether the process was forked while its parent had the host.
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Refuses calls in a forked child.
///
/// # Errors
/// `Uninitialized` in the child of a process that had opened the host before the fork.
#[inline]
pub(crate) fn check(py: Python<'_>) -> PyResult<()> {
    if is_forked() { Err(forked(py)) } else { Ok(()) }
}

#[cold]
fn forked(py: Python<'_>) -> PyErr {
    let message = "this process is a fork of one that used longshore, and has none of its threads";
    let hint = "fork before the first use, or start processes by multiprocessing's method 'spawn' \
                or 'forkserver'";
    raised(py, &Error::new(ErrorCode::Uninitialized, message), Some(hint))
}

/// Returns the host; the first call creates it, without the interpreter's lock.
///
/// # Errors
/// As for [`Host::new`], and [`check`].
pub(crate) fn host(py: Python<'_>) -> PyResult<Arc<Host>> {
    check(py)?;
    if let Some(host) = HOST.get() {
        return Ok(Arc::clone(host));
    }
    py.detach(|| {
        let _creating = CREATION.lock();
        if let Some(host) = HOST.get() {
            return Ok(Arc::clone(host));
        }
        log::start();
        let host = Arc::new(Host::new()?);
        // SAFETY: the function stores one value, as a handler in the child may.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
        if failed != 0 {
            let why = std::io::Error::from_raw_os_error(failed);
            let message = format!("registering a handler of forks: {why}");
            return Err(Error::new(ErrorCode::OutOfResources, message));
        }
        Ok(Arc::clone(HOST.get_or_init(|| Held::new(host))))
    })
    .raise(py)
}

extern "C" fn note_fork() {
    IS_FORKED.store(true, Ordering::Relaxed);
}
