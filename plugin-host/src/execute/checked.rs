//! Launches whose accesses are checked: groups and items run one after the other on one thread.

use super::cooperative::{self, Step};
use super::fault::{Cause, Fault};
use super::fibers::Group;
use super::memory::SharedMemory;
use super::run::Run;
use crate::check::{self, Checker, RunningSession, Session, steps};
use crate::guard::Guard;
use crate::kernel::abi::Work;
use crate::kernel::{Kernel, Mode};
use crate::memory::Allocations;
use longshore_plugin_api::Error;
use std::sync::Arc;

/// Runs all groups of a launch. Blocks, also while another checked launch runs.
///
/// # Errors
/// `BackendFailure` with all errors that were found, and as for launches without checks.
pub(super) fn run(
    checker: &Arc<Checker>,
    kernel: &Kernel,
    run: &Run<'_>,
    allocations: &Allocations,
) -> Result<(), Error> {
    let (groups, dynamic_bytes) = (run.shape.groups, run.shape.dynamic_shared_bytes);
    let session = RunningSession::begin(checker, &kernel.name, groups, dynamic_bytes);
    let result = steps::checked(|| match run.code.has_grid_barrier {
        true => run_in_turns(&session, run),
        false => run_groups(&session, run, kernel, allocations),
    });
    let found = session.end();
    match (result, found) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(found)) => Err(found),
        (Err(fault), found) => {
            let error = fault.describe(kernel, Some(groups), allocations);
            Err(found.map_or(error.clone(), |found| found.context(error.message())))
        }
    }
}

fn run_groups(
    session: &RunningSession,
    run: &Run<'_>,
    kernel: &Kernel,
    allocations: &Allocations,
) -> Result<(), Fault> {
    let shared = SharedMemory::take();
    let work = work(run, &shared);
    for number in 0..run.total() {
        match run_group(session, run, &work, number) {
            Err(Fault { cause: Cause::Stuck(items), group, item, .. })
                if session.with(|it| it.kinds.barriers) =>
            {
                let numbers = items.each_ref().map(|(item, _)| index_of(*item, run.shape.items));
                let cause = Cause::Stuck(items);
                let fault = Fault { cause, group, item, earlier_code: None };
                let error = fault.describe(kernel, Some(run.shape.groups), allocations);
                session.with(|it| it.report_stuck(numbers, error.message()));
            }
            result => result?,
        }
    }
    Ok(())
}

fn work(run: &Run<'_>, shared: &SharedMemory) -> Work {
    let mut work = run.work(shared);
    (work.traced, work.first, work.last) = (1, [0; 3], run.shape.items);
    work.fixed_bytes = SharedMemory::most_fixed_bytes(work.dynamic_bytes);
    work
}

fn run_group(
    session: &RunningSession,
    run: &Run<'_>,
    work: &Work,
    number: u64,
) -> Result<(), Fault> {
    let mut work = Work { begin: number, end: number + 1, group: number, ..*work };
    let mode = mode(run);
    if mode == check::Mode::ItemLoops {
        // Only code for the items of stacks records the current item in the work.
        work.traced = 0;
    }
    session.with(|it| it.begin_group(number, &work, mode));
    if mode == check::Mode::Fibers {
        // SAFETY: the creator of the run vouches for the kernel.
        return unsafe { Group::new(&work, number, false, run.call).advance() }.map(drop);
    }
    // SAFETY: as above.
    let result = unsafe {
        let call = run.call;
        Guard::for_thread().call(call.entry, call.arguments, &raw mut work)
    };
    result.map_err(|stop| {
        let item = session.with(|it| it.running_item());
        Fault { cause: Cause::on_thread(stop), group: number, item, earlier_code: None }
    })
}

/// Runs groups that wait for each other.
fn run_in_turns(session: &RunningSession, run: &Run<'_>) -> Result<(), Fault> {
    let mode = mode(run);
    cooperative::run_alone(run, |step| match step {
        Step::Turn(number, work) => session.with(|it| it.turn_to_group(number, work, mode)),
        Step::Barrier => session.with(Session::pass_grid_barrier),
    })
}

/// Returns the mode of checked items: only items in loops and in their own stacks have identities.
fn mode(run: &Run<'_>) -> check::Mode {
    match run.mode() {
        Mode::Loop => check::Mode::Loop,
        Mode::Regions => check::Mode::Regions,
        Mode::ItemLoops(_) if !run.code.has_grid_barrier => check::Mode::ItemLoops,
        Mode::Fibers | Mode::ItemLoops(_) => check::Mode::Fibers,
    }
}

fn index_of([x, y, z]: [u32; 3], [width, height, _]: [u32; 3]) -> u32 {
    (z * height + y) * width + x
}
