//! Queues and events for drivers that have none.
//!
//! A backend whose driver has only blocking calls implements [`SoftwareBackend`], and uses
//! [`SoftwareQueue`] and [`SoftwareEvent`] as its queues and events. These types keep the promises
//! of `docs/plugin-interface.md` on order, errors and events. `examples/plugin.rs` is such a
//! backend.

use crate::backend::{Backend, Event, Queue};
use crate::request::{Arguments, CopyRequest, HostFunction, LaunchShape, Span};
use crate::{Error, ErrorCode, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// Work of a queue, called once on the queue's thread. The call may block until the driver is done.
pub type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// A backend with [`SoftwareQueue`]s.
///
/// Each function checks its request and returns the work, with all data that the work needs: the
/// arguments and the pattern are invalid when the work runs. The caller gets an error of the
/// function at once. The next [`Queue::synchronize`] returns an error of the work.
pub trait SoftwareBackend: Backend<Queue = SoftwareQueue, Event = SoftwareEvent> {
    /// Returns the work of [`Queue::launch`].
    ///
    /// # Errors
    /// `InvalidArgument` and `Unsupported`, as for [`Queue::launch`].
    fn launch(kernel: &Self::Kernel, shape: &LaunchShape, arguments: Arguments<'_>)
    -> Result<Work>;

    /// Returns the work of [`Queue::copy`]. Both ranges have the same length, which may be 0 bytes.
    ///
    /// # Errors
    /// Errors of the driver that show before the copy begins.
    fn copy(copy: &CopyRequest<'_, Self::Device>) -> Result<Work>;

    /// Returns the work of [`Queue::fill`]. The length of the pattern, at least 1 byte, divides
    /// that of the range.
    ///
    /// # Errors
    /// Errors of the driver that show before the fill begins.
    fn fill(destination: Span, pattern: &[u8]) -> Result<Work>;
}

/// An in-order queue: a thread that calls its work in order. The thread ends when the queue is
/// dropped and all its work is done. Dropping does not block, and the thread may outlive the
/// queue's device: work that uses an object of the driver owns a reference to it. Any thread may
/// call any method.
pub struct SoftwareQueue {
    jobs: Sender<Job>,
    thread: ThreadId,
    last: Mutex<Arc<Record>>,
    pending_error: Arc<Mutex<Option<Error>>>,
}

struct Job {
    work: Work,
    record: Arc<Record>,
}

impl SoftwareQueue {
    /// Creates an idle queue and starts its thread.
    ///
    /// # Errors
    /// `OutOfResources` if the thread cannot be started.
    pub fn new() -> Result<SoftwareQueue> {
        let (jobs, queued) = channel();
        let pending_error = Arc::default();
        let errors = Arc::clone(&pending_error);
        let builder = thread::Builder::new().name("longshore-queue".to_owned());
        let started = builder.spawn(move || run_all(queued, &errors)).map_err(|error| {
            let message = format!("a thread for a queue cannot be started: {error}");
            Error::new(ErrorCode::OutOfResources, message).with_source(error)
        })?;
        let last = Arc::<Record>::default();
        last.reach(None);
        Ok(SoftwareQueue {
            jobs,
            thread: started.thread().id(),
            last: Mutex::new(last),
            pending_error,
        })
    }

    /// Adds work to the queue. If `wait` is set, blocks until the work and all work queued before
    /// it are done.
    ///
    /// # Errors
    /// If the call waits, errors of [`Queue::synchronize`].
    pub fn push(&self, wait: bool, work: Work) -> Result<()> {
        if wait {
            self.refuse_own_thread()?;
        }
        self.append(work)?;
        if wait { self.wait_for_all() } else { Ok(()) }
    }

    /// Adds work to the queue, and returns the record after it.
    fn append(&self, work: Work) -> Result<Arc<Record>> {
        let record = Arc::<Record>::default();
        let mut last = lock(&self.last);
        let ended = |_| Error::new(ErrorCode::Unknown, "the thread of the queue has ended");
        self.jobs.send(Job { work, record: Arc::clone(&record) }).map_err(ended)?;
        *last = Arc::clone(&record);
        Ok(record)
    }

    /// Waits for all queued work, and takes the pending error.
    fn wait_for_all(&self) -> Result<()> {
        let last = Arc::clone(&lock(&self.last));
        last.wait();
        lock(&self.pending_error).take().map_or(Ok(()), Err)
    }

    fn refuse_own_thread(&self) -> Result<()> {
        if thread::current().id() != self.thread {
            return Ok(());
        }
        Err(Error::would_deadlock("waiting for a queue", "the same queue"))
    }
}

/// Runs the work of a queue on the queue's thread.
fn run_all(jobs: Receiver<Job>, pending_error: &Mutex<Option<Error>>) {
    for Job { work, record } in jobs {
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            Err(Error::new(ErrorCode::Unknown, "the work of a queue has panicked"))
        });
        let mut pending_error = lock(pending_error);
        if let Err(error) = result {
            pending_error.get_or_insert(error);
        }
        record.reach(pending_error.clone());
    }
}

impl<B: SoftwareBackend> Queue<B> for SoftwareQueue {
    fn launch(
        &self,
        kernel: &B::Kernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        shape.refuse_words()?;
        self.push(shape.wait, B::launch(kernel, shape, arguments)?)
    }

    fn copy(&self, copy: &CopyRequest<'_, B::Device>) -> Result<()> {
        self.push(copy.wait, B::copy(copy)?)
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        self.push(wait, B::fill(destination, pattern)?)
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        let work = move || {
            function.call();
            Ok(())
        };
        self.push(false, Box::new(work))
    }

    fn wait_event(&self, event: &SoftwareEvent) -> Result<()> {
        let Some(record) = event.last() else { return Ok(()) };
        self.push(false, Box::new(move || record.wait().map_or(Ok(()), Err)))
    }

    fn record_event(&self, event: &SoftwareEvent) -> Result<()> {
        let mut last = lock(&event.last);
        *last = Some(self.append(Box::new(|| Ok(())))?);
        Ok(())
    }

    fn is_idle(&self) -> Result<bool> {
        Ok(lock(&self.last).is_reached())
    }

    fn synchronize(&self) -> Result<()> {
        self.refuse_own_thread()?;
        self.wait_for_all()
    }
}

/// An event: its last record in a [`SoftwareQueue`].
pub struct SoftwareEvent {
    device: u32,
    timing: bool,
    last: Mutex<Option<Arc<Record>>>,
}

impl SoftwareEvent {
    /// Creates an event of the device with this index, without a record; `timing` if
    /// [`Event::elapsed_ns`] may use the event.
    pub fn new(device: u32, timing: bool) -> SoftwareEvent {
        SoftwareEvent { device, timing, last: Mutex::default() }
    }

    fn last(&self) -> Option<Arc<Record>> {
        lock(&self.last).clone()
    }

    fn reached_at(&self) -> Result<Instant> {
        let reached = self.last().and_then(|record| record.reached_at());
        let message = "the event was not recorded, or its record was not reached";
        reached.ok_or_else(|| Error::new(ErrorCode::InvalidEvent, message))
    }
}

impl<B: SoftwareBackend> Event<B> for SoftwareEvent {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.last().is_none_or(|record| record.is_reached()))
    }

    fn synchronize(&self) -> Result<()> {
        self.last().and_then(|record| record.wait()).map_or(Ok(()), Err)
    }

    fn elapsed_ns(&self, end: &SoftwareEvent) -> Result<i64> {
        if !(self.timing && end.timing) {
            let message = "an event was made without timing";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        if self.device != end.device {
            let message =
                format!("the events belong to the devices {} and {}", self.device, end.device);
            return Err(Error::new(ErrorCode::InvalidDevice, message));
        }
        let (start, end) = (self.reached_at()?, end.reached_at()?);
        let ns = |later: Instant, earlier| later.duration_since(earlier).as_nanos() as i64;
        Ok(ns(end, start) - ns(start, end))
    }
}

/// A place in a queue. A reached place stays reached.
#[derive(Default)]
struct Record {
    reached: Mutex<Option<Completion>>,
    changed: Condvar,
}

struct Completion {
    at: Instant,
    /// First failure of earlier work that was pending when the place was reached.
    failure: Option<Error>,
}

impl Record {
    fn reach(&self, failure: Option<Error>) {
        *lock(&self.reached) = Some(Completion { at: Instant::now(), failure });
        self.changed.notify_all();
    }

    fn is_reached(&self) -> bool {
        lock(&self.reached).is_some()
    }

    fn reached_at(&self) -> Option<Instant> {
        lock(&self.reached).as_ref().map(|reached| reached.at)
    }

    /// Blocks until the place is reached, and returns the failure in front of it.
    fn wait(&self) -> Option<Error> {
        let mut reached = lock(&self.reached);
        loop {
            if let Some(reached) = &*reached {
                return reached.failure.clone();
            }
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
