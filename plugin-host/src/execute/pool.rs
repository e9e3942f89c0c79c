//! The threads that all queues share, and how they help with a launch.
//!
//! A launch is run by the thread that runs its queue; helpers, named `longshore-w<number>`, join where it is worth
//! it. What is to be done lies in the queue's [`Job`], as ranges of chunks, one range for each who may take part.
//! Each takes chunks from the front of its own range, and when that is empty steals the later half of another's.
//!
//! Nothing here is shared between queues on the way of a launch but one counter that helpers watch. Helpers find
//! jobs through a list that queues enter once.

use crate::spin::spin_until;
use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::RwLock;
use rustix::thread::futex;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a helper looks for more before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);
/// How long a thread works before it looks whether others want something of its range.
const STRIDE: Duration = Duration::from_micros(20);
/// Kernels may use as much stack as on a program's main thread.
const STACK_BYTES: usize = 8 << 20;
/// Most threads that the setting `THREADS` may ask for.
const MOST_THREADS: usize = 1024;
/// How many chunks a job may have: two ends of a range fit a word.
const MOST_CHUNKS: u64 = u32::MAX as u64;

/// The helpers, which end when it is dropped.
pub(crate) struct Pool {
    helpers: usize,
    pinned: bool,
    started: Once,
    bell: Arc<Bell>,
}

/// What helpers wait for.
#[derive(Default)]
struct Bell {
    /// Changes when there is something to do.
    epoch: AtomicU32,
    sleepers: AtomicUsize,
    jobs: RwLock<Vec<Weak<Job>>>,
    /// There will be nothing to do any more.
    closed: AtomicBool,
}

/// Something that several threads do together.
pub(crate) trait Task: Sync {
    /// Does groups `begin..end`. `false`: it failed, and nobody need go on.
    fn run(&self, begin: u64, end: u64) -> bool;
}

/// What a queue shares with helpers. Used for one launch at a time.
pub(crate) struct Job {
    /// [`OPEN`], and how many helpers are inside.
    state: AtomicU64,
    plan: UnsafeCell<Option<Plan>>,
    /// The chunks left for each who may take part, the runner first: begin and end.
    ranges: Box<[Padded]>,
    failed: AtomicBool,
    registered: Once,
}

#[repr(align(128))]
struct Padded(AtomicU64);

#[derive(Clone)]
struct Plan {
    task: *const (dyn Task + 'static),
    total: u64,
    chunk: u64,
    runner: Thread,
}

/// Helpers may come in.
const OPEN: u64 = 1 << 63;

// SAFETY: `plan` is written while the job is closed and empty, by its runner, and read by whoever is inside
// while it is open; its task is `Sync`.
unsafe impl Sync for Job {}
// SAFETY: as above.
unsafe impl Send for Job {}

impl Pool {
    /// A pool that starts its helpers when it first needs them. `threads` counts the one that runs a queue.
    ///
    /// # Errors
    /// `InvalidValue` for settings that are not a number of threads, and 0 or 1.
    pub(crate) fn new(threads: Option<&str>, pin: Option<&str>, cores: u32) -> Result<Arc<Pool>> {
        let threads = threads.map_or(Ok(cores as usize), parse_threads)?;
        let pinned = match pin.map(str::trim) {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => return Err(invalid("PIN", other, "0 or 1")),
        };
        Ok(Arc::new(Pool {
            helpers: threads.max(1) - 1,
            pinned,
            started: Once::new(),
            bell: Arc::default(),
        }))
    }

    /// How many threads can take part in a launch.
    pub(crate) fn threads(&self) -> usize {
        self.helpers + 1
    }

    /// Does `total` groups on this thread and on helpers, `chunk` at a time. Returns when all are done, or
    /// when it failed and nobody does any more; whether all are done. A panic counts as a failure.
    pub(crate) fn run(&self, job: &Arc<Job>, task: &dyn Task, total: u64, chunk: u64) -> bool {
        self.start();
        job.registered.call_once(|| self.bell.register(job));
        let chunk = chunk.max(total.div_ceil(MOST_CHUNKS)).max(1);
        let chunks = total.div_ceil(chunk);
        // SAFETY: only the lifetime changes: the job is closed and empty before this returns.
        let task =
            unsafe { std::mem::transmute::<*const dyn Task, *const (dyn Task + 'static)>(task) };
        job.open(Plan { task, total, chunk, runner: thread::current() }, chunks);
        self.bell.ring(chunks - 1);
        job.take_part(0);
        job.close();
        !job.failed.load(Ordering::Relaxed)
    }

    fn start(&self) {
        self.started.call_once(|| {
            let cpus = if self.pinned { allowed_cpus() } else { Vec::new() };
            for helper in 1..=self.helpers {
                let bell = Arc::clone(&self.bell);
                let cpu = cpus.get(helper % cpus.len().max(1)).copied();
                let body = move || {
                    pin_to(cpu);
                    bell.serve(helper);
                };
                let name = format!("longshore-w{helper}");
                let builder = thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
                if let Err(error) = builder.spawn(body) {
                    log::warn!("thread '{name}' cannot be started, launches use fewer: {error}");
                    break;
                }
            }
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.bell.closed.store(true, Ordering::SeqCst);
        self.bell.ring(u64::MAX);
    }
}

impl Bell {
    /// The life of a helper.
    fn serve(&self, helper: usize) {
        while !self.closed.load(Ordering::SeqCst) {
            let seen = self.epoch.load(Ordering::SeqCst);
            while let Some(job) = self.find() {
                job.help(helper);
            }
            self.await_change(seen);
        }
    }

    fn ring(&self, wanted: u64) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let sleepers = self.sleepers.load(Ordering::SeqCst);
        if sleepers > 0 {
            let count = wanted.min(sleepers as u64) as u32;
            let _ = futex::wake(&self.epoch, futex::Flags::PRIVATE, count);
        }
    }

    fn register(&self, job: &Arc<Job>) {
        let mut jobs = self.jobs.write();
        jobs.retain(|job| job.strong_count() > 0);
        jobs.push(Arc::downgrade(job));
    }

    /// A job that wants help.
    fn find(&self) -> Option<Arc<Job>> {
        let jobs = self.jobs.read();
        jobs.iter().filter_map(Weak::upgrade).find(|job| job.wants_help())
    }

    /// Blocks until there may be something to do.
    fn await_change(&self, seen: u32) {
        let has_changed =
            || self.epoch.load(Ordering::SeqCst) != seen || self.closed.load(Ordering::SeqCst);
        if spin_until(PATIENCE, has_changed) {
            return;
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if !self.closed.load(Ordering::SeqCst) {
            let _ = futex::wait(&self.epoch, futex::Flags::PRIVATE, seen, None);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Job {
    /// A job for the queues of a pool.
    pub(crate) fn new(pool: &Pool) -> Arc<Job> {
        Arc::new(Job {
            state: AtomicU64::new(0),
            plan: UnsafeCell::new(None),
            ranges: (0..pool.threads()).map(|_| Padded(AtomicU64::new(0))).collect(),
            failed: AtomicBool::new(false),
            registered: Once::new(),
        })
    }

    fn open(&self, plan: Plan, chunks: u64) {
        let parts = self.ranges.len() as u64;
        let edge = |part: u64| (u128::from(chunks) * u128::from(part) / u128::from(parts)) as u32;
        for (part, range) in (0..).zip(&self.ranges) {
            range.0.store(pack(edge(part), edge(part + 1)), Ordering::Relaxed);
        }
        self.failed.store(false, Ordering::Relaxed);
        // SAFETY: the job is closed and empty, so nobody else reads the plan.
        unsafe { *self.plan.get() = Some(plan) };
        self.state.store(OPEN, Ordering::Release);
    }

    /// Waits until all helpers have left.
    fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let is_empty = || self.state.load(Ordering::Acquire) == 0;
        if !spin_until(PATIENCE, is_empty) {
            while !is_empty() {
                thread::park();
            }
        }
        // SAFETY: closed and empty.
        unsafe { *self.plan.get() = None };
    }

    fn wants_help(&self) -> bool {
        self.state.load(Ordering::Acquire) & OPEN != 0
            && !self.failed.load(Ordering::Relaxed)
            && self.ranges.iter().any(|range| !is_empty(range.0.load(Ordering::Relaxed)))
    }

    /// Takes part as a helper, if the job is open.
    fn help(&self, helper: usize) {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & OPEN == 0 {
                return;
            }
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, state + 1, success, failure) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let runner = self.plan().runner.clone();
        self.take_part(helper);
        if self.state.fetch_sub(1, Ordering::AcqRel) == 1 {
            runner.unpark();
        }
    }

    /// Runs chunks until none is left, or somebody failed: as many at a time as take about [`STRIDE`].
    fn take_part(&self, part: usize) {
        let plan = self.plan();
        // SAFETY: `Pool::run` keeps the task until the job is closed and empty.
        let task = unsafe { &*plan.task };
        let mut count = 1;
        while !self.failed.load(Ordering::Relaxed)
            && let Some((first, taken)) = self.take(part, count).or_else(|| self.steal(part))
        {
            let begin = u64::from(first) * plan.chunk;
            let end = begin.saturating_add(u64::from(taken) * plan.chunk).min(plan.total);
            let start = Instant::now();
            // Whoever waits for a helper that is gone would wait for ever.
            let finished = catch_unwind(AssertUnwindSafe(|| task.run(begin, end)));
            if !finished.unwrap_or(false) {
                self.failed.store(true, Ordering::Relaxed);
            }
            let spent = start.elapsed();
            if spent < STRIDE / 2 {
                count = count.saturating_mul(2);
            } else if spent > STRIDE * 2 {
                count = (count / 2).max(1);
            }
        }
    }

    fn plan(&self) -> &Plan {
        // SAFETY: who is inside an open job may read the plan, which was written before it was opened.
        unsafe { (*self.plan.get()).as_ref() }.expect("an open job has a plan")
    }

    /// Up to `count` chunks of the own range, of which others may still want some: the first, and how many.
    fn take(&self, part: usize, count: u32) -> Option<(u32, u32)> {
        let range = &self.ranges[part].0;
        let share = |begin: u32, end: u32| count.min((end - begin).div_ceil(4));
        let taken = range.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |packed| {
            let (begin, end) = unpack(packed);
            (begin < end).then(|| pack(begin + share(begin, end), end))
        });
        let (begin, end) = unpack(taken.ok()?);
        Some((begin, share(begin, end)))
    }

    /// Takes the later half of another's range; its first chunk is for now, the rest becomes the own range.
    fn steal(&self, part: usize) -> Option<(u32, u32)> {
        let count = self.ranges.len();
        for victim in (1..count).map(|distance| &self.ranges[(part + distance) % count].0) {
            let stolen = victim.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |packed| {
                let (begin, end) = unpack(packed);
                (begin < end).then(|| pack(begin, begin + (end - begin) / 2))
            });
            if let Ok(packed) = stolen {
                let (begin, end) = unpack(packed);
                let middle = begin + (end - begin) / 2;
                // Nobody else changes an empty range.
                self.ranges[part].0.store(pack(middle + 1, end), Ordering::Release);
                return Some((middle, 1));
            }
        }
        None
    }
}

fn pack(begin: u32, end: u32) -> u64 {
    u64::from(begin) << 32 | u64::from(end)
}

fn unpack(packed: u64) -> (u32, u32) {
    ((packed >> 32) as u32, packed as u32)
}

fn is_empty(packed: u64) -> bool {
    let (begin, end) = unpack(packed);
    begin >= end
}

fn parse_threads(value: &str) -> Result<usize> {
    let number = value.trim().parse().ok().filter(|count| (1..=MOST_THREADS).contains(count));
    number.ok_or_else(|| invalid("THREADS", value, &format!("a number from 1 to {MOST_THREADS}")))
}

fn invalid(setting: &str, value: &str, expected: &str) -> Error {
    let message = format!("LONGSHORE_HOST_{setting} is '{value}', expected {expected}");
    Error::new(ErrorCode::InvalidValue, message)
}

/// The CPUs that the process may run on.
fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn pin_to(cpu: Option<usize>) {
    let Some(cpu) = cpu else { return };
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        log::warn!("a thread cannot be pinned to CPU {cpu}: {error}");
    }
}

#[cfg(test)]
mod tests;
