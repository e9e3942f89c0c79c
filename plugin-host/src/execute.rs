//! The execution of kernels.
//!
//! A queue holds a [`Launch`]: the kernel and the shape. [`Engine::run`] runs it on the queue's
//! thread and, if that is faster, also on the helpers of the [`Pool`]. The kernel's
//! [`Mode`](crate::kernel::Mode) decides how the items of a group run:
//!
//! - *host form*: LLVM's; one call for the whole launch;
//! - *loop* and *regions*: the kernel loops over groups and items itself, one call for many groups;
//! - *fibers*: each item has a stack of its own (`fibers.rs`), because items wait for each other.
//!
//! All calls of kernels go through [`guard`](crate::guard), so their faults come back as values.
//! The layout of `Work` must match `include/longshore_device.h`.

mod checked;
mod concurrent;
mod cooperative;
mod fault;
mod fibers;
pub(crate) mod guarded;
mod late;
pub(crate) mod listed;
mod memory;
mod pool;
mod run;
mod runtime;
mod stack;
mod wait;
pub(crate) mod words;

pub(crate) use late::{LateCalls, LateImage};
pub(crate) use pool::{Job, Pool};

use crate::check::Checker;
use crate::guard::{Guard, Stop};
use crate::kernel::abi::{GroupEntry, HostEntry};
use crate::kernel::{COST_PER_NS, Code, GroupCode, Kernel};
use crate::memory::Allocations;
use fault::{Cause, Fault};
use fibers::Call;
use longshore_plugin_api::{Error, LaunchShape};
use pool::Task;
use run::Run;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// A kernel and the shape of its launch, which match.
#[derive(Clone, Copy)]
pub(crate) struct Launch {
    /// The kernel, alive until the launch is done: the host unloads no module with queued kernels.
    kernel: NonNull<Kernel>,
    shape: LaunchShape,
}

// SAFETY: a kernel can be used from any thread.
unsafe impl Send for Launch {}

impl Launch {
    /// Creates a launch. The kernel must stay alive until the launch is done.
    #[inline]
    pub(crate) fn new(kernel: &Kernel, shape: &LaunchShape) -> Launch {
        Launch { kernel: NonNull::from(kernel), shape: *shape }
    }
}

/// State that the queues of a device share.
pub(crate) struct Engine {
    pool: Arc<Pool>,
    allocations: Arc<Allocations>,
    checker: Option<Arc<Checker>>,
}

impl Engine {
    pub(crate) fn new(
        pool: Arc<Pool>,
        allocations: Arc<Allocations>,
        checker: Option<Arc<Checker>>,
    ) -> Engine {
        Engine { pool, allocations, checker }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Arc<Engine> {
        let pool = Pool::new(Some("2"), None, 2).expect("2 is a number of threads");
        Arc::new(Engine::new(pool, Arc::default(), None))
    }

    /// Creates the job that a queue needs for its launches.
    pub(crate) fn new_job(&self) -> Arc<Job> {
        Job::new(&self.pool)
    }

    /// Returns the largest number of groups of this size that can wait for each other.
    pub(crate) fn most_cooperative_groups(code: &GroupCode, items: [u32; 3]) -> u32 {
        cooperative::most_groups(code, items)
    }

    /// Runs a launch to its end. Blocks.
    ///
    /// # Errors
    /// `BackendFailure` if the kernel fails: a fault, a failed assertion, or items that wait at
    /// different places. `OutOfResources` without memory for stacks. In both cases, some groups may
    /// not have run, or only in part.
    ///
    /// # Safety
    /// The kernel may be run with these arguments.
    // The optimizer leaves this function out of line if it has several callers.
    #[inline(always)]
    pub(crate) unsafe fn run(
        &self,
        job: &Arc<Job>,
        launch: &Launch,
        arguments: *const *const c_void,
    ) -> Result<(), Error> {
        // SAFETY: the creator of a launch keeps its kernel alive until the launch is done.
        let kernel = unsafe { launch.kernel.as_ref() };
        match &kernel.code {
            // SAFETY: a kernel of this form takes the first argument only; the caller vouches for
            // the rest.
            Code::Host(entry) => unsafe {
                let entry = std::mem::transmute::<HostEntry, GroupEntry>(*entry);
                let result = Guard::for_thread().call(entry, arguments, std::ptr::null_mut());
                result.map_err(|stop| self.describe_host(kernel, stop))
            },
            // SAFETY: promised by the caller.
            Code::Groups(code) => unsafe { self.run_code(job, launch, code, arguments) },
        }
    }

    /// Runs a launch of a work-group kernel to its end. Out of line: launches of other kernels do
    /// not need its stack frame.
    ///
    /// # Safety
    /// As for [`Engine::run`]; `code` is that of the launch's kernel.
    #[inline(never)]
    unsafe fn run_code(
        &self,
        job: &Arc<Job>,
        launch: &Launch,
        code: &GroupCode,
        arguments: *const *const c_void,
    ) -> Result<(), Error> {
        let call = Call { entry: code.entry, arguments };
        if let Some(checker) = &self.checker {
            // SAFETY: as in `run`; the caller vouches for the kernel.
            return unsafe { self.run_checked(checker, launch, code, call) };
        }
        // SAFETY: the caller vouches for the kernel.
        let run = unsafe { Run::new(code, call, &launch.shape) };
        let finished = if code.has_grid_barrier {
            cooperative::run(&self.pool, job, &run)
        } else if launch.shape.cooperative && run.total() > 1 {
            concurrent::run(self.pool.threads(), &run)
        } else {
            self.run_groups(job, &run)
        };
        runtime::flush();
        // SAFETY: as in `run`.
        if finished { Ok(()) } else { Err(self.describe(unsafe { launch.kernel.as_ref() }, run)) }
    }

    /// Runs a launch with checks.
    ///
    /// # Safety
    /// As for [`Engine::run`]; `code` is that of the launch's kernel.
    #[cold]
    unsafe fn run_checked(
        &self,
        checker: &Arc<Checker>,
        launch: &Launch,
        code: &GroupCode,
        call: Call,
    ) -> Result<(), Error> {
        // SAFETY: promised by the caller.
        let (kernel, run) =
            unsafe { (launch.kernel.as_ref(), Run::new(code, call, &launch.shape)) };
        let result = checked::run(checker, kernel, &run, &self.allocations);
        runtime::flush();
        result
    }

    /// Runs all groups, on this thread alone if that is faster than with helpers.
    #[inline]
    fn run_groups(&self, job: &Arc<Job>, run: &Run<'_>) -> bool {
        let total = run.total();
        if total == 1 || self.pool.threads() == 1 {
            return run.run(0, total);
        }
        let done = match run.code.cost() {
            0 => 1,
            cost if is_worthwhile(cost, total) => 0,
            // The cost of a group depends on the arguments, so the estimate is tested on some
            // groups.
            _ => (total / 8).max(1),
        };
        if done > 0 && !run.timed(0, done, 1, |run| run.run(0, done)) {
            return false;
        }
        let rest = total - done;
        let cost = run.code.cost().max(1);
        if !is_worthwhile(cost, rest) {
            return run.run(done, total);
        }
        let threads = self.pool.threads() as u64;
        let by_time = CHUNK.as_nanos() as u64 * COST_PER_NS as u64 / cost;
        let chunk = by_time.clamp(1, (rest / (threads * LEAST_CHUNKS)).max(1));
        let rest_of = RemainingGroups { run, done };
        run.timed(done, total, threads, |_| self.pool.run(job, &rest_of, rest, chunk))
    }

    #[cold]
    fn describe_host(&self, kernel: &Kernel, stop: Stop) -> Error {
        let fault =
            Fault { cause: Cause::on_thread(stop), group: 0, item: None, earlier_code: None };
        fault.describe(kernel, None, &self.allocations)
    }

    #[cold]
    fn describe(&self, kernel: &Kernel, run: Run<'_>) -> Error {
        let groups = run.shape.groups;
        run.into_fault().describe(kernel, Some(groups), &self.allocations)
    }
}

/// Least estimated time of a launch that gets helpers: waking a thread takes some microseconds.
const WORTHWHILE: Duration = Duration::from_micros(10);

/// Returns whether `groups` groups of this cost are worth waking a thread.
#[inline]
fn is_worthwhile(cost: u64, groups: u64) -> bool {
    u128::from(cost) * u128::from(groups) >= WORTHWHILE.as_nanos() * COST_PER_NS
}

/// Least work that threads take or steal at a time.
const CHUNK: Duration = Duration::from_micros(5);
/// Least number of chunks per thread, so that the wait for the last thread is short.
const LEAST_CHUNKS: u64 = 16;

/// All groups of a run except the first `done`.
struct RemainingGroups<'a> {
    run: &'a Run<'a>,
    done: u64,
}

impl Task for RemainingGroups<'_> {
    fn run(&self, begin: u64, end: u64) -> bool {
        self.run.run(self.done + begin, self.done + end)
    }
}

#[cfg(test)]
mod tests;
