//! Launches whose groups wait for each other: every group starts before any group passes a barrier
//! of the grid.

use super::fault::{Cause, Fault};
use super::fibers::{Group, Progress};
use super::memory::SharedMemory;
use super::pool::{Job, Pool, Task};
use super::run::Run;
use crate::kernel::abi::Work;
use crate::kernel::{GroupCode, Mode};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Largest number of stacks of a launch.
const MOST_STACKS: u64 = 16 << 10;
/// Largest number of groups of a launch with one stack per group.
const MOST_GROUPS: u32 = 1024;

/// Returns the largest number of groups of this size that can wait for each other.
pub(super) fn most_groups(code: &GroupCode, items: [u32; 3]) -> u32 {
    if code.mode.for_group(items) != Mode::Fibers {
        return MOST_GROUPS;
    }
    let stacks = items.iter().map(|count| u64::from(*count)).fold(1, u64::saturating_mul);
    MOST_GROUPS.min((MOST_STACKS / stacks.max(1)) as u32)
}

/// Runs all groups. Returns `false` if a group failed.
pub(super) fn run(pool: &Arc<Pool>, job: &Arc<Job>, run: &Run<'_>) -> bool {
    let grid = Grid { run, total: run.total(), state: Mutex::default(), changed: Condvar::new() };
    let threads = (pool.threads() as u64).min(grid.total);
    match threads {
        1 => grid.run(0, 1),
        _ => pool.run(job, &grid, threads, 1),
    }
}

/// Runs all groups on this thread, and calls `step` before a group begins or goes on, and when all
/// groups have reached a barrier of the grid.
pub(super) fn run_alone(run: &Run<'_>, mut step: impl FnMut(Step<'_>)) -> Result<(), Fault> {
    let is_whole = run.mode() != Mode::Fibers;
    let mut waiting = Vec::new();
    for number in 0..run.total() {
        let shared = SharedMemory::take();
        let mut work = run.work(&shared);
        (work.traced, work.first, work.last) = (1, [0; 3], run.shape.items);
        let group = Group::new(&work, number, is_whole, run.call);
        waiting.push((number, work, StartedGroup { group, _shared: shared }));
    }
    while !waiting.is_empty() {
        let (mut next, mut done) = (Vec::new(), false);
        for (number, work, mut started) in waiting {
            step(Step::Turn(number, &work));
            // SAFETY: the creator of the run vouches for the kernel.
            match unsafe { started.group.advance() }? {
                Progress::AtGridBarrier => next.push((number, work, started)),
                Progress::Done => done = true,
            }
        }
        if done && let Some((group, _, _)) = next.first() {
            let (cause, group) = (Cause::GridStuck, *group);
            return Err(Fault { cause, group, item: None, earlier_code: None });
        }
        step(Step::Barrier);
        waiting = next;
    }
    Ok(())
}

/// A step of groups that take turns.
pub(super) enum Step<'a> {
    /// A group begins or goes on.
    Turn(u64, &'a Work),
    /// All groups have reached a barrier of the grid.
    Barrier,
}

struct Grid<'a> {
    run: &'a Run<'a>,
    total: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next group to start.
    next: u64,
    /// Numbers of groups that wait at the barrier, and of groups that have returned.
    waiting: u64,
    done: u64,
    /// A waiting group, if any group waits.
    waiter: u64,
    /// Number of barriers that all groups have reached.
    meetings: u64,
    failed: bool,
}

/// A started group, with its memory.
struct StartedGroup {
    group: Group,
    _shared: SharedMemory,
}

impl Task for Grid<'_> {
    /// Runs one thread's part: starts groups until none is left, then continues its own groups.
    fn run(&self, _begin: u64, _end: u64) -> bool {
        let _guard = PanicGuard { grid: self };
        let mut own = Vec::new();
        while let Some(number) = self.next_group() {
            let shared = SharedMemory::take();
            let is_whole = self.run.mode() != Mode::Fibers;
            let group = Group::new(&self.run.work(&shared), number, is_whole, self.run.call);
            own.extend(self.advance(StartedGroup { group, _shared: shared }));
        }
        let mut meeting = 0;
        while !own.is_empty() && self.await_meeting(&mut meeting) {
            own = own.drain(..).filter_map(|begun| self.advance(begun)).collect();
        }
        !self.state.lock().failed
    }
}

/// A guard that fails the launch on a panic, so that no thread waits for the panicked one.
struct PanicGuard<'a> {
    grid: &'a Grid<'a>,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.grid.state.lock().failed = true;
            self.grid.changed.notify_all();
        }
    }
}

impl Grid<'_> {
    fn next_group(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.failed || state.next == self.total {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    /// Runs a group to the barrier, or to its end.
    fn advance(&self, mut begun: StartedGroup) -> Option<StartedGroup> {
        // SAFETY: the creator of the run vouches for the kernel.
        let progress = unsafe { begun.group.advance() };
        let mut state = self.state.lock();
        let goes_on = match progress {
            Ok(Progress::AtGridBarrier) => {
                (state.waiting, state.waiter) = (state.waiting + 1, begun.group.number());
                Some(begun)
            }
            Ok(Progress::Done) => {
                state.done += 1;
                None
            }
            Err(fault) => {
                self.fail(&mut state, fault);
                None
            }
        };
        if state.waiting > 0 && state.waiting + state.done == self.total {
            if state.done > 0 {
                let (cause, group) = (Cause::GridStuck, state.waiter);
                self.fail(&mut state, Fault { cause, group, item: None, earlier_code: None });
            }
            (state.waiting, state.meetings) = (0, state.meetings + 1);
            self.changed.notify_all();
        }
        goes_on
    }

    fn fail(&self, state: &mut State, fault: Fault) {
        self.run.keep(fault);
        state.failed = true;
        self.changed.notify_all();
    }

    /// Blocks until all groups have reached the next barrier. Returns `false` if the launch has
    /// failed.
    fn await_meeting(&self, seen: &mut u64) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.failed && state.meetings == *seen);
        *seen += 1;
        !state.failed
    }
}
