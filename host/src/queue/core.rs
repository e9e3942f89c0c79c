//! The plugin's queue behind a [`Queue`](super::Queue).

use super::usage::{Queued, Usage};
use crate::backend::{AnyDevice, AnyQueue};
use crate::host_function;
use crate::polling;
use crate::rundown::{Rundown, RundownGuard};
use longshore_plugin_api::{Error, ErrorCode, Queue as _, Result};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A queue of the plugin with the host's state of it. The core outlives the
/// [`Queue`](super::Queue): after the handle is dropped, the core is parked on its device and
/// reused.
pub(crate) struct QueueCore {
    /// Unique number of this queue in the process.
    number: u64,
    shard: usize,
    remote: Rundown<Open>,
    parked: AtomicBool,
    last_program: AtomicU64,
    programs: Mutex<HashSet<u64>>,
    /// The pending error: an error of work that the unloading of a program, or an event of another
    /// platform, waited for. Kept until the queue's own next synchronization reports it.
    pending_error: Mutex<Option<Error>>,
    usage: Usage,
}

/// A point in a queue's order, behind all work that was queued before the point was created.
#[derive(Clone)]
pub(crate) struct Point {
    queue: Arc<QueueCore>,
    number: u64,
}

impl Point {
    /// Returns whether this point belongs to `queue`.
    pub(crate) fn is_of(&self, queue: &Arc<QueueCore>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Returns whether all work before the point is done. Does not block.
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

    /// Blocks until all work before the point is done or has failed. Returns false in a host
    /// function of the point's queue, which would wait for itself.
    pub(crate) fn wait(&self) -> bool {
        let usage = &self.queue.usage;
        // Closing a queue passes all its points.
        if let Some(open) = self.queue.open()
            && !host_function::is_inside_queue(self.queue.number)
        {
            self.queue.keep_failure(&open.queue.synchronize());
            usage.passed(self.number);
        }
        usage.has_passed(self.number)
    }
}

/// An open queue. It keeps the plugin's device: closing the device takes all queues first.
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

    /// Returns a guard that, when dropped, notes that work was queued without waiting for it.
    #[inline]
    pub(super) fn queueing(&self) -> Queued<'_> {
        self.usage.queueing()
    }

    /// Returns whether no work was queued since the queue was last seen idle. Costs one load.
    #[inline]
    pub(crate) fn is_known_idle(&self) -> bool {
        self.usage.is_known_idle()
    }

    /// Returns the point behind all queued work; `None` if all of it is done.
    pub(crate) fn point(self: &Arc<QueueCore>) -> Option<Point> {
        if self.is_known_idle() {
            return None;
        }
        let number = match self.open() {
            Some(open) => self.usage.point(&open)?,
            // The queue is being closed, which passes all points.
            None => u64::MAX,
        };
        Some(Point { queue: Arc::clone(self), number })
    }

    #[inline]
    pub(super) fn open(&self) -> Option<RundownGuard<'_, Open>> {
        self.remote.enter(0)
    }

    /// Returns the shard of a program's rundown that this queue's launches enter.
    #[inline]
    pub(super) fn shard(&self) -> usize {
        self.shard
    }

    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Takes the pending error, as the result of a synchronization.
    ///
    /// # Errors
    /// The pending error, if there is one.
    pub(super) fn take_pending_error(&self) -> Result<()> {
        self.pending_error.lock().take().map_or(Ok(()), Err)
    }

    /// Returns a copy of the pending error, which stays pending.
    pub(super) fn pending_error(&self) -> Option<Error> {
        self.pending_error.lock().clone()
    }

    /// Keeps an error as the pending one, unless an earlier error is pending.
    pub(super) fn keep_pending_error(&self, error: Error) {
        self.pending_error.lock().get_or_insert(error);
    }

    /// Parks the queue after its handle was dropped. Queued work still runs.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::Release);
    }

    /// Takes a parked queue into use again. Returns false if the queue is not parked, not idle or
    /// closed.
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

    /// Records that this queue uses a program. Called before work of the program is queued.
    #[inline]
    pub(super) fn note_program(&self, program: u64) {
        if self.last_program.load(Ordering::Relaxed) != program {
            self.programs.lock().insert(program);
            self.last_program.store(program, Ordering::Relaxed);
        }
    }

    /// Waits for all queued work, if this queue has used the program. An error also becomes the
    /// pending error.
    pub(crate) fn wait_for_program(&self, program: u64) -> Result<()> {
        if !self.programs.lock().contains(&program) {
            return Ok(());
        }
        self.wait_for_all()
    }

    /// Blocks until all queued work is done. A failure also becomes the queue's pending error.
    ///
    /// # Errors
    /// The first unreported error of that work; `Unsupported` in a host function of this queue.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        host_function::refuse_inside_queue(self.number, "waiting for a queue")?;
        let waited = self.remote.enter(0).map_or(Ok(()), |open| open.queue.synchronize());
        self.keep_failure(&waited);
        waited
    }

    /// Blocks until all queued work is done or has failed, also while another thread closes the
    /// queue. Afterwards no work uses memory of the program.
    ///
    /// # Errors
    /// The first unreported error of that work; `Unsupported`, without a wait, in a host function
    /// of this queue.
    pub(super) fn finish(&self) -> Result<()> {
        host_function::refuse_inside_queue(self.number, "waiting for a queue")?;
        if let Some(open) = self.open() {
            return open.queue.synchronize();
        }
        // Closing waits for all work, and passes all points then.
        polling::poll(Duration::MAX, || Ok(self.usage.has_passed(u64::MAX))).map(drop)
    }

    /// Queues a function behind all queued work, which no caller waits for.
    ///
    /// # Errors
    /// As for [`Queue::host_function`](super::Queue::host_function); the function is dropped then.
    pub(super) fn call_behind_work(
        &self,
        device: u64,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let Some(open) = self.open() else {
            return Err(Error::new(ErrorCode::Uninitialized, "the queue was closed"));
        };
        let _queued = self.queueing();
        let owner = host_function::Owner { device, queue: self.number };
        host_function::queue(owner, function, |raw| open.queue.host_function(raw))
    }

    /// Keeps an error of a wait as the pending error.
    fn keep_failure(&self, waited: &Result<()>) {
        if let Err(error) = waited {
            self.keep_pending_error(error.clone());
        }
    }

    /// Removes the record of a program. No later call queues work of that program.
    pub(crate) fn forget_program(&self, program: u64) {
        self.programs.lock().remove(&program);
    }

    /// Waits for all queued work, then drops the plugin's queue.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(open) = self.remote.take() else {
            return Ok(());
        };
        let waited = open.queue.synchronize();
        self.usage.close();
        waited
    }
}
