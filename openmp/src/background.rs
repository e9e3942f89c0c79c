//! Target regions with `nowait` that run on threads of this library.
//!
//! libomp runs a task with `nowait` on a hidden helper thread. A parallel region on such a thread
//! never ends: its barrier waits for the other helper threads. So a kernel for the CPU that may
//! have a parallel region runs on another thread, and the helper thread asks whether it is done.

use crate::abi::MapArguments;
use crate::ompt::Origin;
use crate::region::Region;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Greatest number of threads; libomp has as many hidden helper threads.
const MOST_THREADS: usize = 8;
/// Longest time that a query waits for a region.
const QUERY: Duration = Duration::from_micros(200);
/// Number of times that a thread gives way to others before it sleeps: waking a thread takes longer
/// than many regions.
const YIELDS: usize = 50;

/// A copy of a region with the arrays of its arguments, which the caller of a region with `nowait`
/// need not keep.
struct OwnedRegion {
    region: Region,
    pointers: Vec<*mut c_void>,
    numbers: Vec<i64>,
}

// SAFETY: the pointers lead to memory of the program, which the task keeps until the region is
// done. Any thread may run the region.
unsafe impl Send for OwnedRegion {}

impl OwnedRegion {
    /// Copies a region.
    ///
    /// # Safety
    /// The region's arrays have an element for each argument.
    unsafe fn copy(region: &Region) -> OwnedRegion {
        let MapArguments { count, bases, begins, sizes, types, names, mappers } = region.arguments;
        let null = std::ptr::null_mut();
        let (mut pointers, mut numbers) = (Vec::new(), Vec::new());
        for array in [bases.cast_const(), begins.cast_const(), names, mappers] {
            // SAFETY: promised by the caller.
            let element = |at| unsafe { if array.is_null() { null } else { *array.add(at) } };
            pointers.extend((0..count).map(element));
        }
        for array in [sizes, types] {
            // SAFETY: promised by the caller.
            numbers.extend((0..count).map(|at| unsafe { *array.add(at) }));
        }
        let mut copy = OwnedRegion { region: region.clone(), pointers, numbers };
        let (pointers, numbers) = (copy.pointers.as_mut_ptr(), copy.numbers.as_ptr());
        // SAFETY: the vectors have these elements, and are not changed any more.
        copy.region.arguments = unsafe {
            MapArguments {
                count,
                bases: pointers,
                begins: pointers.add(count),
                sizes: numbers,
                types: numbers.add(count),
                names: pointers.add(2 * count),
                mappers: pointers.add(3 * count),
            }
        };
        copy
    }
}

/// A region that runs on a thread of this library.
pub(crate) struct Background {
    is_done: AtomicBool,
    /// Lock of threads that sleep until the region is done.
    sleeping: Mutex<()>,
    done: Condvar,
}

type Work = fn(i64, &Region);

struct Job {
    region: OwnedRegion,
    device: i64,
    work: Work,
    origin: Option<Origin>,
    state: Arc<Background>,
}

/// Jobs that no thread has begun, and the threads.
struct Jobs {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static JOBS: Mutex<Jobs> = Mutex::new(Jobs { waiting: VecDeque::new(), threads: 0, idle: 0 });
static ADDED: Condvar = Condvar::new();

impl Background {
    /// Starts `work` with a copy of the region on another thread. Returns `None` if no thread can
    /// be started.
    ///
    /// # Safety
    /// The region's arrays have an element for each argument, and the memory of the arguments stays
    /// until the region is done.
    pub(crate) unsafe fn start(
        device: i64,
        region: &Region,
        work: Work,
    ) -> Option<Arc<Background>> {
        let state = Arc::new(Background {
            is_done: AtomicBool::new(false),
            sleeping: Mutex::new(()),
            done: Condvar::new(),
        });
        let origin = Origin::for_task();
        let mut jobs = JOBS.lock();
        let is_short = jobs.idle <= jobs.waiting.len();
        if is_short && jobs.threads < MOST_THREADS {
            let name = format!("longshore-omp{}", jobs.threads);
            match std::thread::Builder::new().name(name).spawn(run_jobs) {
                Ok(_) => jobs.threads += 1,
                Err(error) if jobs.threads == 0 => {
                    log::warn!("starting a thread for target regions with nowait: {error}");
                    return None;
                }
                Err(_) => {}
            }
        }
        // SAFETY: promised by the caller.
        let region = unsafe { OwnedRegion::copy(region) };
        jobs.waiting.push_back(Job { region, device, work, origin, state: Arc::clone(&state) });
        ADDED.notify_one();
        Some(state)
    }

    /// Returns whether the region is done. Waits up to 200 microseconds.
    pub(crate) fn query(&self) -> bool {
        let is_done = || self.is_done.load(Ordering::Acquire);
        for _ in 0..YIELDS {
            if is_done() {
                return true;
            }
            std::thread::yield_now();
        }
        let mut sleeping = self.sleeping.lock();
        if !is_done() {
            self.done.wait_for(&mut sleeping, QUERY);
        }
        is_done()
    }

    /// Notes that the region is done.
    fn end(&self) {
        let sleeping = self.sleeping.lock();
        self.is_done.store(true, Ordering::Release);
        drop(sleeping);
        self.done.notify_all();
    }
}

fn run_jobs() {
    loop {
        let job = next_job();
        if let Some(origin) = job.origin {
            origin.adopt();
        }
        (job.work)(job.device, &job.region.region);
        job.state.end();
    }
}

/// Takes the next job. Blocks while the queue is empty.
fn next_job() -> Job {
    for _ in 0..YIELDS {
        if let Some(job) = JOBS.lock().waiting.pop_front() {
            return job;
        }
        std::thread::yield_now();
    }
    let mut jobs = JOBS.lock();
    loop {
        if let Some(job) = jobs.waiting.pop_front() {
            return job;
        }
        jobs.idle += 1;
        ADDED.wait(&mut jobs);
        jobs.idle -= 1;
    }
}
