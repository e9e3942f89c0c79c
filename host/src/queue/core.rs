//! The plugin's queue behind a [`Queue`](super::Queue).

use super::usage::{Queued, Usage};
use crate::backend::{AnyDevice, AnyQueue};
use crate::host_function;
use crate::rundown::{Rundown, RundownGuard};
use longshore_plugin_api::{Error, Queue as _, Result};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A queue of the plugin and what the host knows of it. It outlives the [`Queue`](super::Queue): a dropped one
/// is parked on its device and used again.
pub(crate) struct QueueCore {
    /// Identifies this queue alone in the process.
    number: u64,
    shard: usize,
    remote: Rundown<Open>,
    parked: AtomicBool,
    last_program: AtomicU64,
    programs: Mutex<HashSet<u64>>,
    /// The error of work that the unloading of a program, or an event of another platform, waited
    /// for, until the queue's own user hears of it.
    pending_error: Mutex<Option<Error>>,
    usage: Usage,
}

/// A point in a queue's order, behind all that was queued before it was made.
#[derive(Clone)]
pub(crate) struct Point {
    queue: Arc<QueueCore>,
    number: u64,
}

impl Point {
    /// Returns whether it is a point of this queue.
    pub(crate) fn is_of(&self, queue: &Arc<QueueCore>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Returns whether all before it is done. Does not block.
    pub(crate) fn is_passed(&self) -> bool {
        let usage = &self.queue.usage;
        if usage.has_passed(self.number) {
            return true;
        }
        if let Some(open) = self.queue.open() {
            usage.poll(&open);
        }
        usage.has_passed(self.number)
    }

    /// Blocks until all before it is done or has failed. False in a host function of its queue,
    /// which would wait for itself.
    pub(crate) fn wait(&self) -> bool {
        let usage = &self.queue.usage;
        // A queue that is being closed passes all points when that is done.
        if let Some(open) = self.queue.open()
            && !host_function::is_inside_queue(self.queue.number)
        {
            self.queue.tell_user(&open.queue.synchronize());
            usage.passed(self.number);
        }
        usage.has_passed(self.number)
    }
}

/// An open queue holds its device open: the device's close takes all queues first.
pub(super) struct Open {
    pub(super) queue: AnyQueue,
    pub(super) device: Arc<AnyDevice>,
}

impl QueueCore {
    pub(crate) fn new(queue: AnyQueue, device: Arc<AnyDevice>, shard: usize) -> QueueCore {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        QueueCore {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            shard,
            remote: Rundown::new(Open { queue, device }),
            parked: AtomicBool::new(false),
            last_program: AtomicU64::new(0),
            programs: Mutex::default(),
            pending_error: Mutex::default(),
            usage: Usage::new(),
        }
    }

    /// Notes what is queued, without waiting for it, until the answer is dropped.
    #[inline]
    pub(super) fn queueing(&self) -> Queued<'_> {
        self.usage.queueing()
    }

    /// Returns whether nothing was queued since the queue was last seen idle. One load.
    #[inline]
    pub(crate) fn is_known_idle(&self) -> bool {
        self.usage.is_known_idle()
    }

    /// Returns the point behind all that is queued now; `None` if all of that is done.
    pub(crate) fn point(self: &Arc<QueueCore>) -> Option<Point> {
        if self.is_known_idle() {
            return None;
        }
        let number = match self.open() {
            Some(open) => self.usage.point(&open)?,
            // It is being closed, which passes all points.
            None => u64::MAX,
        };
        Some(Point { queue: Arc::clone(self), number })
    }

    #[inline]
    pub(super) fn open(&self) -> Option<RundownGuard<'_, Open>> {
        self.remote.enter(0)
    }

    /// By which shard of a program's gate its launches go.
    #[inline]
    pub(super) fn shard(&self) -> usize {
        self.shard
    }

    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The first error that the host met and the queue's user was not told of.
    pub(super) fn take_pending_error(&self) -> Result<()> {
        self.pending_error.lock().take().map_or(Ok(()), Err)
    }

    /// Returns the same, which stays untold.
    pub(super) fn pending_error(&self) -> Option<Error> {
        self.pending_error.lock().clone()
    }

    /// Keeps an error for the queue's user.
    pub(super) fn keep_pending_error(&self, error: Error) {
        self.pending_error.lock().get_or_insert(error);
    }

    /// Nobody uses it any more; what is queued still runs.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::Release);
    }

    /// Takes a parked queue into use again, if it is idle.
    pub(crate) fn unpark(&self) -> bool {
        if !self.parked.load(Ordering::Acquire) {
            return false;
        }
        let Some(open) = self.remote.enter(0) else {
            return false;
        };
        if !open.queue.is_idle().unwrap_or(false) {
            return false;
        }
        if let Err(error) = open.queue.synchronize() {
            log::error!("work of a dropped queue failed: {error}");
        }
        self.pending_error.lock().take();
        self.parked.store(false, Ordering::Release);
        true
    }

    /// Remembers that a program is used, before work of it is queued.
    #[inline]
    pub(super) fn note_program(&self, program: u64) {
        if self.last_program.load(Ordering::Relaxed) != program {
            self.programs.lock().insert(program);
            self.last_program.store(program, Ordering::Relaxed);
        }
    }

    /// Waits for what is queued, if some of it may be of a program. An error is also kept for the
    /// queue's user.
    pub(crate) fn wait_for_program(&self, program: u64) -> Result<()> {
        if !self.programs.lock().contains(&program) {
            return Ok(());
        }
        self.wait_for_all()
    }

    /// Blocks until all that was queued is done. The queue's own user hears of a failure too.
    ///
    /// # Errors
    /// The first among that work that was not told; `Unsupported` in a host function of this queue.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        host_function::refuse_inside_queue(self.number, "waiting for a queue")?;
        let waited = self.remote.enter(0).map_or(Ok(()), |open| open.queue.synchronize());
        self.tell_user(&waited);
        waited
    }

    /// Keeps a failure for the queue's own user.
    fn tell_user(&self, waited: &Result<()>) {
        if let Err(error) = waited {
            self.keep_pending_error(error.clone());
        }
    }

    /// Forgets a program that nobody queues any more.
    pub(crate) fn forget_program(&self, program: u64) {
        self.programs.lock().remove(&program);
    }

    /// Waits for what is queued, then gives the plugin's queue up.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(open) = self.remote.take() else {
            return Ok(());
        };
        let waited = open.queue.synchronize();
        self.usage.close();
        waited
    }
}
