//! Waiting for queues. The interpreter runs other threads meanwhile, and handles signals.

use crate::errors::Raise;
use crate::process;
use crate::queue_core::QueueCore;
use longshore::Result;
use parking_lot::Mutex;
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two checks of signals in the thread that handles them.
const SLICE: Duration = Duration::from_millis(50);

/// Calls `wait`, which waits up to a limit and returns whether the wait is over. Repeats the call
/// until the wait is over or `limit` has passed. Returns whether the wait is over.
///
/// # Errors
/// Errors of `wait`, and exceptions of signal handlers, such as `KeyboardInterrupt`.
pub(crate) fn in_slices(
    py: Python<'_>,
    limit: Option<Duration>,
    wait: impl Fn(Duration) -> Result<bool> + Sync,
) -> PyResult<bool> {
    process::check(py)?;
    let begin = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if py.detach(|| wait(slice)).raise(py)? {
            return Ok(true);
        }
        py.check_signals()?;
        if left.is_some_and(|left| left <= slice) {
            return Ok(false);
        }
    }
}

/// Waits for a queue without limit. A thread that handles no signals waits without polling.
///
/// # Errors
/// As for [`in_slices`].
pub(crate) fn for_queue(py: Python<'_>, queue: &QueueCore) -> PyResult<()> {
    process::check(py)?;
    if !handles_signals() {
        return py.detach(|| queue.queue().synchronize()).raise(py);
    }
    in_slices(py, None, |slice| queue.queue().synchronize_for(slice)).map(drop)
}

/// Returns whether this thread is the main thread of the process, in which signals are handled.
fn handles_signals() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// The queues whose work uses an object.
#[derive(Default)]
pub(crate) struct Users(Mutex<SmallVec<[Arc<QueueCore>; 2]>>);

impl Users {
    /// Notes that work of a queue uses the object.
    #[inline]
    pub(crate) fn note(&self, queue: &Arc<QueueCore>) {
        let mut users = self.0.lock();
        if !users.iter().any(|user| Arc::ptr_eq(user, queue)) {
            users.push(Arc::clone(queue));
        }
    }

    /// Waits for the work of all users.
    ///
    /// # Errors
    /// As for [`for_queue`]. The remaining users are still noted.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<()> {
        process::check(py)?;
        loop {
            let Some(last) = self.0.lock().last().cloned() else { return Ok(()) };
            for_queue(py, &last)?;
            let mut users = self.0.lock();
            // Another thread may have queued work since.
            let is_idle = last.queue().is_idle().unwrap_or(true);
            users.retain(|user| !(is_idle && Arc::ptr_eq(user, &last)));
            drop(users);
            if !is_idle {
                return Ok(());
            }
        }
    }

    /// Returns whether work of a noted queue may still use the object.
    pub(crate) fn are_busy(&self) -> bool {
        self.0.lock().iter().any(|user| !user.queue().is_idle().unwrap_or(true))
    }
}
