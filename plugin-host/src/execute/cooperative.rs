//! Launches whose groups wait for each other: all are begun before any goes on behind a barrier of the grid.

use super::fault::{Cause, Fault};
use super::fibers::{Group, Progress};
use super::memory::SharedMemory;
use super::pool::{Job, Pool, Task};
use super::run::Run;
use crate::kernel::{GroupCode, Mode};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Stacks that a launch may have.
const MOST_STACKS: u64 = 16 << 10;
/// Groups of a launch whose groups have one stack each.
const MOST_GROUPS: u32 = 1024;

/// The most groups of this many items that can wait for each other.
pub(super) fn most_groups(code: &GroupCode, items: [u32; 3]) -> u32 {
    if code.mode != Mode::Fibers {
        return MOST_GROUPS;
    }
    let stacks = items.iter().map(|count| u64::from(*count)).fold(1, u64::saturating_mul);
    MOST_GROUPS.min((MOST_STACKS / stacks.max(1)) as u32)
}

/// Runs all groups. `false` if one failed.
pub(super) fn run(pool: &Arc<Pool>, job: &Arc<Job>, run: &Run<'_>) -> bool {
    let grid = Grid { run, total: run.total(), state: Mutex::default(), changed: Condvar::new() };
    let threads = (pool.threads() as u64).min(grid.total);
    match threads {
        1 => grid.run(0, 1),
        _ => pool.run(job, &grid, threads, 1),
    }
}

struct Grid<'a> {
    run: &'a Run<'a>,
    total: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next group to be begun.
    next: u64,
    /// Groups that wait at the barrier, and those that have returned.
    waiting: u64,
    done: u64,
    /// One that waits, if any does.
    waiter: u64,
    /// How often all groups have met.
    meetings: u64,
    failed: bool,
}

/// A group that was begun, with its memory.
struct Begun {
    group: Group,
    _shared: SharedMemory,
}

impl Task for Grid<'_> {
    /// One thread's part: begins groups until all are begun, then goes on with its own.
    fn run(&self, _begin: u64, _end: u64) -> bool {
        let _guard = FailsWithPanic { grid: self };
        let mut own = Vec::new();
        while let Some(number) = self.next_group() {
            let shared = SharedMemory::take();
            let is_whole = self.run.code.mode != Mode::Fibers;
            let group = Group::new(&self.run.work(&shared), number, is_whole, self.run.call);
            own.extend(self.advance(Begun { group, _shared: shared }));
        }
        let mut meeting = 0;
        while !own.is_empty() && self.await_meeting(&mut meeting) {
            own = own.drain(..).filter_map(|begun| self.advance(begun)).collect();
        }
        !self.state.lock().failed
    }
}

/// Nobody waits for a thread that panicked.
struct FailsWithPanic<'a> {
    grid: &'a Grid<'a>,
}

impl Drop for FailsWithPanic<'_> {
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

    /// Runs a group to the barrier, or its end.
    fn advance(&self, mut begun: Begun) -> Option<Begun> {
        // SAFETY: who made the run vouches for the kernel.
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
                self.fail(&mut state, Fault { cause, group, item: None });
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

    /// Blocks until all groups have met once more; false if the launch has failed.
    fn await_meeting(&self, seen: &mut u64) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.failed && state.meetings == *seen);
        *seen += 1;
        !state.failed
    }
}
