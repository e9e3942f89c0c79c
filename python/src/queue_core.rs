//! Queues of the library, as other objects share them.

use crate::errors::raised;
use crate::process::{self, Held};
use longshore::{Error, ErrorCode};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue of the library, shared by the objects that its work uses.
pub(crate) struct QueueCore {
    queue: Held<longshore::Queue>,
    is_closed: AtomicBool,
    /// Whether the program has dropped its only object for the queue.
    is_left: AtomicBool,
}

impl QueueCore {
    pub(crate) fn new(queue: longshore::Queue) -> Arc<QueueCore> {
        Arc::new(QueueCore {
            queue: Held::new(queue),
            is_closed: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
        })
    }

    pub(crate) fn queue(&self) -> &longshore::Queue {
        &self.queue
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns whether all queued work is done, also if it failed.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_idle().unwrap_or(true)
    }

    /// Returns whether the queue can get no more work.
    pub(crate) fn is_former(&self) -> bool {
        self.is_closed() || self.is_left.load(Ordering::Relaxed)
    }

    /// Notes that the program has dropped its only object for the queue.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    /// Refuses later work.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Refuses work for a closed queue.
    ///
    /// # Errors
    /// `Uninitialized` after the queue was closed, and [`process::check`].
    #[inline]
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        process::check(py)?;
        if self.is_closed() { Err(closed(py)) } else { Ok(()) }
    }
}

#[cold]
fn closed(py: Python<'_>) -> PyErr {
    let error = Error::new(ErrorCode::Uninitialized, "the queue was closed before");
    raised(py, &error, Some("use the queue inside its `with` block, or create another one"))
}
