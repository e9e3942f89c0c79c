//! The threads that all queues share as helpers of their launches.
//!
//! The queue's thread runs a launch; helpers, named `longshore-w<number>`, join if that is faster.
//! The queue's [`Job`] holds the work as ranges of chunks, one range for each possible thread. Each
//! thread takes chunks from the front of its own range. With an empty range, it steals the later
//! half of another thread's range.
//!
//! On the launch path, queues share only one counter, which helpers watch. Helpers find jobs
//! through a list that each queue enters once.

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

/// Time that a helper looks for more work before it sleeps.
const SPIN_TIME: Duration = Duration::from_micros(50);
/// Approximate time of the work that a thread takes at once; other threads can steal the rest of
/// its range.
const STRIDE: Duration = Duration::from_micros(20);
/// Stack size of a helper: 8 MiB, as on a program's main thread.
const STACK_BYTES: usize = 8 << 20;
/// Most threads that the setting `THREADS` may request.
const MOST_THREADS: usize = 1024;
/// Most chunks of a job: the two ends of a range fit into a word.
const MOST_CHUNKS: u64 = u32::MAX as u64;

/// The helpers, which end when the pool is dropped.
pub(crate) struct Pool {
    helpers: usize,
    pinned: bool,
    started: Once,
    signal: Arc<WorkSignal>,
}

/// The state that helpers wait for.
#[derive(Default)]
struct WorkSignal {
    /// A counter that changes when work arrives.
    epoch: AtomicU32,
    sleepers: AtomicUsize,
    jobs: RwLock<Vec<Weak<Job>>>,
    /// Whether no more work will arrive.
    closed: AtomicBool,
}

/// Work that several threads do together.
pub(crate) trait Task: Sync {
    /// Runs groups `begin..end`. Returns `false` if a group failed, so that the other threads can
    /// stop.
    fn run(&self, begin: u64, end: u64) -> bool;
}

/// State that a queue shares with helpers, for one launch at a time.
pub(crate) struct Job {
    /// [`OPEN`], and the number of helpers inside.
    state: AtomicU64,
    plan: UnsafeCell<Option<Plan>>,
    /// The remaining chunks of each possible thread, the runner first: begin and end.
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

/// Flag of a job that helpers may enter.
const OPEN: u64 = 1 << 63;

// SAFETY: the runner writes `plan` while the job is closed and empty. Threads inside an open job
// read it; its task is `Sync`.
unsafe impl Sync for Job {}
// SAFETY: as above.
unsafe impl Send for Job {}

impl Pool {
    /// Creates a pool that starts its helpers at the first need. `threads` includes the thread that
    /// runs a queue.
    ///
    /// # Errors
    /// `InvalidValue` if `threads` is not a number of threads, or `pin` is neither 0 nor 1.
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
            signal: Arc::default(),
        }))
    }

    /// Returns the number of threads that can take part in a launch.
    pub(crate) fn threads(&self) -> usize {
        self.helpers + 1
    }

    /// Runs `total` groups on this thread and on helpers, `chunk` groups at a time. Blocks until
    /// all groups are done, or until a group has failed and no thread runs a group any more.
    /// Returns whether all groups are done. A panic counts as a failure.
    pub(crate) fn run(&self, job: &Arc<Job>, task: &dyn Task, total: u64, chunk: u64) -> bool {
        self.start();
        job.registered.call_once(|| self.signal.register(job));
        let chunk = chunk.max(total.div_ceil(MOST_CHUNKS)).max(1);
        let chunks = total.div_ceil(chunk);
        // SAFETY: only the lifetime changes: the job is closed and empty before this function
        // returns.
        let task =
            unsafe { std::mem::transmute::<*const dyn Task, *const (dyn Task + 'static)>(task) };
        job.open(Plan { task, total, chunk, runner: thread::current() }, chunks);
        self.signal.ring(chunks - 1);
        job.take_part(0);
        job.close();
        !job.failed.load(Ordering::Relaxed)
    }

    fn start(&self) {
        self.started.call_once(|| {
            let cpus = if self.pinned { allowed_cpus() } else { Vec::new() };
            for helper in 1..=self.helpers {
                let signal = Arc::clone(&self.signal);
                let cpu = cpus.get(helper % cpus.len().max(1)).copied();
                let body = move || {
                    pin_to(cpu);
                    signal.serve(helper);
                };
                let name = format!("longshore-w{helper}");
                let builder = thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
                if let Err(error) = builder.spawn(body) {
                    log::warn!(
                        "thread '{name}' cannot be started, launches use fewer threads: {error}"
                    );
                    break;
                }
            }
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.signal.closed.store(true, Ordering::SeqCst);
        self.signal.ring(u64::MAX);
    }
}

impl WorkSignal {
    /// Runs a helper until the pool closes.
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

    /// Returns a job that needs helpers.
    fn find(&self) -> Option<Arc<Job>> {
        let jobs = self.jobs.read();
        jobs.iter().filter_map(Weak::upgrade).find(|job| job.wants_help())
    }

    /// Blocks until work may have arrived.
    fn await_change(&self, seen: u32) {
        let has_changed =
            || self.epoch.load(Ordering::SeqCst) != seen || self.closed.load(Ordering::SeqCst);
        if spin_until(SPIN_TIME, has_changed) {
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
    /// Creates a job for a queue of the pool.
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
        // SAFETY: the job is closed and empty, so no other thread reads the plan.
        unsafe { *self.plan.get() = Some(plan) };
        self.state.store(OPEN, Ordering::Release);
    }

    /// Closes the job and waits until all helpers have left.
    fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let is_empty = || self.state.load(Ordering::Acquire) == 0;
        if !spin_until(SPIN_TIME, is_empty) {
            while !is_empty() {
                thread::park();
            }
        }
        // SAFETY: the job is closed and empty.
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

    /// Runs chunks until none is left or a thread has failed. The number of chunks at a time adapts
    /// to [`STRIDE`].
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
            // Catches panics: a thread that waits for a lost helper would wait for ever.
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
        // SAFETY: a thread inside an open job may read the plan, which was written before the job
        // opened.
        unsafe { (*self.plan.get()).as_ref() }.expect("an open job has a plan")
    }

    /// Takes up to `count` chunks of the own range, but at most a quarter of it, rounded up: other
    /// threads may steal the rest. Returns the first chunk and the number of chunks.
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

    /// Takes the later half of another thread's range. Its first chunk is the result; the rest
    /// becomes the own range.
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
                // No other thread changes an empty range.
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

/// Returns the CPUs that the process may run on.
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
