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

/// Waits for the work of a queue without limit. A thread that handles no signals does not poll.
///
/// # Errors
/// As for [`in_slices`].
pub(crate) fn for_queue(py: Python<'_>, queue: &QueueCore) -> PyResult<()> {
    process::check(py)?;
    if !handles_signals() {
        return py.detach(|| queue.queue().synchronize()).raise(py);
    }
    if in_slices(py, Some(SLICE), |slice| queue.queue().synchronize_for(slice))? {
        return Ok(());
    }
    // Other threads may queue work without end. This waits for the work of now.
    let event = queue.queue().record().raise(py)?;
    in_slices(py, None, |slice| event.synchronize_for(slice)).map(drop)
}

/// Returns whether this thread is the main thread of the process, in which signals are handled.
fn handles_signals() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// The queues whose work uses an object.
#[derive(Default)]
pub(crate) struct Users(Mutex<Queues>);

type Queues = SmallVec<[Arc<QueueCore>; 2]>;

impl Users {
    /// Notes that work of a queue uses the object. A launch that lets other threads run notes its
    /// queue again behind the launch, as a wait of another thread may have removed an idle queue.
    #[inline]
    pub(crate) fn note(&self, queue: &Arc<QueueCore>) {
        let mut users = self.0.lock();
        if !users.iter().any(|user| Arc::ptr_eq(user, queue)) {
            // Else an object that lives long would keep each queue that ever used it.
            let former = take(&mut users, |user| user.is_former() && user.is_idle());
            users.push(Arc::clone(queue));
            // The drop of a queue can take time, so the lock is free again.
            drop(users);
            drop(former);
        }
    }

    /// Waits for the work that all users have now.
    ///
    /// # Errors
    /// As for [`for_queue`]. All users are still noted then.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<()> {
        process::check(py)?;
        let waited = self.0.lock().clone();
        waited.iter().try_for_each(|user| for_queue(py, user))?;
        // Another thread may have queued work since.
        let is_done = |user: &Arc<QueueCore>| {
            waited.iter().any(|one| Arc::ptr_eq(one, user)) && user.is_idle()
        };
        let done = take(&mut self.0.lock(), is_done);
        drop(done);
        Ok(())
    }

    /// Returns whether work of a noted queue may still use the object.
    pub(crate) fn are_busy(&self) -> bool {
        self.0.lock().iter().any(|user| !user.is_idle())
    }
}

/// Takes some queues out of a list.
fn take(queues: &mut Queues, is_taken: impl Fn(&Arc<QueueCore>) -> bool) -> Queues {
    let (taken, left) = queues.drain(..).partition(is_taken);
    *queues = left;
    taken
}
