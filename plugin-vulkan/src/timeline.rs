//! Timeline semaphores, which count the finished work of a queue.

use crate::logical::{DeviceLossListener, LogicalDevice};
use crate::worker_pool::{QueuedWork, Task};
use ash::prelude::VkResult;
use ash::vk;
use longshore_plugin_api::{Error, Result, WorkerGuard};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// Interval at which a thread that waits for a submission checks for a lost device.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Delay before a call is repeated to a driver that is short of memory.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// A counter that the device or the host raises. Each value stands for a piece of work; work with a
/// lower value is done before.
pub(crate) struct Timeline {
    device: Arc<LogicalDevice>,
    raw: vk::Semaphore,
    /// The highest known reached value.
    seen: AtomicU64,
    /// The highest value whose work was submitted to the driver, or that was reached.
    submitted: AtomicU64,
    /// Number of threads and queues that wait for `submitted`.
    waiting: AtomicUsize,
    turn: Mutex<()>,
    raised: Condvar,
    /// The queues that resume when a value is submitted or reached.
    parked: Mutex<ParkedTasks>,
    /// Whether the driver failed to wait for the timeline.
    is_stuck: AtomicBool,
    failures: Mutex<Failures>,
}

/// The state of a value that a queue waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitStage {
    /// The submission of its work to the driver.
    Submitted,
    /// The end of its work.
    Reached,
}

#[derive(Default)]
struct ParkedTasks {
    until_submitted: Vec<(u64, Task)>,
    until_reached: Vec<(u64, Task)>,
    /// Whether a thread waits for the values of `until_reached`, or was called to.
    is_attended: bool,
    /// Whether the device will notify this timeline of its loss.
    is_known: bool,
}

/// The latest failed work, except failures by the loss of the device.
#[derive(Default)]
struct Failures {
    list: Vec<Failure>,
    /// Number of reports of failures so far.
    reports: u64,
}

struct Failure {
    value: u64,
    reported: Option<FailureReport>,
    error: Error,
}

/// The report of a failure: the value that its caller waited for, and the number of the report.
struct FailureReport {
    at: u64,
    report: u64,
}

/// Most failures that a timeline keeps.
const MOST_FAILURES: usize = 16;

impl Timeline {
    /// Creates a timeline at 0.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn new(device: &Arc<LogicalDevice>) -> Result<Arc<Timeline>> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is live; the feature is enabled.
        let raw = unsafe { device.raw.create_semaphore(&info, None) };
        let raw = device.check("making a timeline semaphore", raw)?;
        Ok(Arc::new(Timeline {
            device: Arc::clone(device),
            raw,
            seen: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            turn: Mutex::new(()),
            raised: Condvar::new(),
            parked: Mutex::default(),
            is_stuck: AtomicBool::new(false),
            failures: Mutex::default(),
        }))
    }

    pub(crate) fn raw(&self) -> vk::Semaphore {
        self.raw
    }

    pub(crate) fn device(&self) -> &Arc<LogicalDevice> {
        &self.device
    }

    /// Returns whether a value is known to be reached, without a call of the driver.
    pub(crate) fn was_seen(&self, value: u64) -> bool {
        self.seen.load(Ordering::Acquire) >= value
    }

    /// Returns whether a value is reached.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn is_reached(&self, value: u64) -> Result<bool> {
        self.device.refuse_if_lost()?;
        if self.was_seen(value) {
            return Ok(true);
        }
        // SAFETY: the semaphore is live.
        let now = unsafe { self.device.raw.get_semaphore_counter_value(self.raw) };
        let now = self.device.check("asking how far a queue is", now)?;
        self.seen.fetch_max(now, Ordering::AcqRel);
        Ok(now >= value)
    }

    /// Blocks until a value is reached. The driver waits only for submitted work: host commands
    /// need no driver.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn wait(&self, value: u64) -> Result<()> {
        self.device.refuse_if_lost()?;
        if self.was_seen(value) {
            return Ok(());
        }
        self.await_submission(value)?;
        if self.was_seen(value) {
            return Ok(());
        }
        self.device.refuse_if_lost()?;
        let (semaphores, values) = ([self.raw], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is live.
        let wait = || unsafe { self.device.raw.wait_semaphores(&info, u64::MAX) };
        let waited = persistently(wait);
        self.device.check("waiting for a queue", waited)?;
        self.seen.fetch_max(value, Ordering::AcqRel);
        Ok(())
    }

    /// Raises the timeline to a value from the host. The value before it must be reached.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn signal(&self, value: u64) -> Result<()> {
        let info = vk::SemaphoreSignalInfo::default().semaphore(self.raw).value(value);
        // SAFETY: the semaphore is live and below the value, because the caller has waited for the
        // preceding value.
        let signal = || unsafe { self.device.raw.signal_semaphore(&info) };
        let signalled = persistently(signal);
        self.device.check("going on with a queue", signalled)?;
        self.seen.fetch_max(value, Ordering::AcqRel);
        self.note_submitted(value);
        Ok(())
    }

    /// Records that the driver will reach a value.
    pub(crate) fn note_submitted(&self, value: u64) {
        // With the order of `await_submission`, at least one of the two threads sees the other's
        // change.
        self.submitted.fetch_max(value, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.turn.lock());
            self.raised.notify_all();
            self.release_submitted();
        }
    }

    /// Returns whether the driver will reach a value without further submissions.
    pub(crate) fn is_submitted(&self, value: u64) -> bool {
        self.submitted.load(Ordering::SeqCst) >= value
    }

    /// Returns whether no notification of reached values will come: on a lost device, or after a
    /// failed wait of the driver.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_stuck.load(Ordering::Acquire) || self.device.is_lost()
    }

    /// Calls a thread for a queue when a value is submitted or reached, or the device is lost. Does
    /// not block.
    ///
    /// # Errors
    /// The task, if its queue can continue now.
    pub(crate) fn call_when(
        self: &Arc<Timeline>,
        awaited: WaitStage,
        value: u64,
        task: Task,
    ) -> Result<(), Task> {
        let mut parked = self.parked.lock();
        if !parked.is_known {
            let waiter: Weak<Timeline> = Arc::downgrade(self);
            self.device.notify_on_loss(waiter);
            parked.is_known = true;
        }
        match awaited {
            WaitStage::Submitted => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                // The order of these steps matters, as in `note_submitted` and after the loss of
                // the device: at least one of the two threads sees the other's change.
                if self.is_submitted(value) || self.is_given_up() {
                    self.waiting.fetch_sub(1, Ordering::SeqCst);
                    return Err(task);
                }
                parked.until_submitted.push((value, task));
            }
            WaitStage::Reached => {
                if self.was_seen(value) || self.is_given_up() {
                    return Err(task);
                }
                parked.until_reached.push((value, task));
                if !std::mem::replace(&mut parked.is_attended, true) {
                    let timeline: Arc<Timeline> = Arc::clone(self);
                    Task::new(timeline, self.device.worker_guard()).call();
                }
            }
        }
        Ok(())
    }

    /// Resumes the queues whose awaited work is submitted, or never will be.
    fn release_submitted(&self) {
        let mut parked = self.parked.lock();
        let is_over = self.is_given_up();
        let free = take(&mut parked.until_submitted, |value| is_over || self.is_submitted(value));
        self.waiting.fetch_sub(free.len(), Ordering::SeqCst);
        drop(parked);
        free.into_iter().for_each(Task::call);
    }

    /// Waits for the awaited values one after the other and resumes their queues, until no queue
    /// waits. Blocks.
    fn release_as_reached(&self) {
        loop {
            let mut parked = self.parked.lock();
            let Some(next) = parked.until_reached.iter().map(|(value, _)| *value).min() else {
                parked.is_attended = false;
                return;
            };
            drop(parked);
            if self.wait(next).is_err() {
                self.is_stuck.store(true, Ordering::Release);
            }
            let is_free = |value| self.is_given_up() || self.was_seen(value);
            let free = take(&mut self.parked.lock().until_reached, is_free);
            free.into_iter().for_each(Task::call);
        }
    }

    /// Records a failure of the work of a value.
    pub(crate) fn note_failure(&self, value: u64, error: &Error) {
        let list = &mut self.failures.lock().list;
        if list.len() == MOST_FAILURES {
            list.remove(0);
        }
        list.push(Failure { value, reported: None, error: error.clone() });
    }

    /// Records that the first failure was reported to a caller that waited for a value.
    pub(crate) fn note_reported(&self, value: u64) {
        let mut failures = self.failures.lock();
        failures.reports += 1;
        let report = failures.reports;
        let unreported = failures.list.iter_mut().filter(|failure| failure.reported.is_none());
        unreported.for_each(|failure| failure.reported = Some(FailureReport { at: value, report }));
    }

    /// Returns the number of reports of failures.
    pub(crate) fn reports(&self) -> u64 {
        self.failures.lock().reports
    }

    /// Returns the first failure of work up to a value that was reported neither before the value
    /// was reached nor by the first `reports` reports.
    pub(crate) fn failure_before(&self, value: u64, reports: u64) -> Option<Error> {
        let failures = self.failures.lock();
        let is_unreported =
            |reported: &FailureReport| value <= reported.at && reports < reported.report;
        let found = failures.list.iter().find(|failure| {
            failure.value <= value && failure.reported.as_ref().is_none_or(is_unreported)
        });
        found.map(|failure| failure.error.clone())
    }

    /// Blocks until the work of a value is submitted, or the value is reached.
    fn await_submission(&self, value: u64) -> Result<()> {
        if self.is_submitted(value) {
            return Ok(());
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut turn = self.turn.lock();
        let mut lost = Ok(());
        while !self.is_submitted(value) && lost.is_ok() {
            self.raised.wait_for(&mut turn, LOOK_EVERY);
            lost = self.device.refuse_if_lost();
        }
        drop(turn);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        lost
    }
}

impl QueuedWork for Timeline {
    fn attend(self: Arc<Timeline>, worker_guard: WorkerGuard) {
        self.release_as_reached();
        drop(self);
        drop(worker_guard);
    }
}

impl DeviceLossListener for Timeline {
    fn device_is_lost(&self) {
        drop(self.turn.lock());
        self.raised.notify_all();
        self.release_submitted();
    }
}

/// Removes the tasks whose values are wanted.
fn take(parked: &mut Vec<(u64, Task)>, wanted: impl Fn(u64) -> bool) -> Vec<Task> {
    parked.extract_if(.., |(value, _)| wanted(*value)).map(|(_, task)| task).collect()
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // SAFETY: every submitter of work with the semaphore has waited for that work; on a lost
        // device, no work runs any more.
        unsafe { self.device.raw.destroy_semaphore(self.raw, None) };
    }
}

/// Repeats a call while the driver is short of memory: a queue that stopped would block its waiters
/// permanently.
fn persistently(ask: impl Fn() -> VkResult<()>) -> VkResult<()> {
    const SHORT: [vk::Result; 2] =
        [vk::Result::ERROR_OUT_OF_HOST_MEMORY, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY];
    loop {
        match ask() {
            Err(result) if SHORT.contains(&result) => thread::sleep(ASK_EVERY),
            answer => return answer,
        }
    }
}
