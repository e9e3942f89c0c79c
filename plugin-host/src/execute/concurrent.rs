//! Cooperative launches of kernels without a barrier of the grid. Their groups wait for memory that
//! other groups write, in loops that the backend cannot see.
//!
//! Threads of the launch take one group after the other. If no group ends for a while, each group
//! that has not begun gets a thread, so that the system lets every group go on. A waiting group
//! uses its processor for a whole time slice of the system. So threads prepare themselves before
//! they begin together, and take their groups without a lock.

use super::fault::{Cause, Fault};
use super::memory::SharedMemory;
use super::run::Run;
use crate::guard::Guard;
use parking_lot::{Condvar, Mutex, RwLock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, Scope, scope};
use std::time::Duration;

/// Time without an ended group after which each further group gets a thread.
const PATIENCE: Duration = Duration::from_millis(2);
/// Stack size of a thread: 8 MiB, as of the pool's helpers.
const STACK_BYTES: usize = 8 << 20;

/// Runs all groups, at first on `threads` threads. Blocks. Returns `false` if a group failed, which
/// ends the others.
pub(super) fn run(threads: usize, run: &Run<'_>) -> bool {
    let groups = Groups::new(run);
    scope(|scope| groups.supervise(scope, threads as u64));
    !groups.failed.into_inner()
}

struct Groups<'a> {
    run: &'a Run<'a>,
    /// The next group to start.
    next: AtomicU64,
    /// Number of groups that have ended.
    ended: AtomicU64,
    failed: AtomicBool,
    /// A lock that the supervisor holds while threads prepare themselves.
    gate: RwLock<()>,
    threads: Mutex<Threads>,
    /// A signal that a thread is prepared or has left.
    changed: Condvar,
}

#[derive(Default)]
struct Threads {
    /// Number of threads that have not left.
    count: usize,
    /// The guards of the prepared threads among them.
    guards: Vec<&'static Guard>,
}

impl<'a> Groups<'a> {
    fn new(run: &'a Run<'a>) -> Groups<'a> {
        Groups {
            run,
            next: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            gate: RwLock::new(()),
            threads: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Starts threads, and more of them if no group ends. Waits for all threads.
    fn supervise<'s>(&'s self, scope: &'s Scope<'s, '_>, threads: u64) {
        let total = self.run.total();
        self.start(scope, threads.min(total));
        let mut has_all = false;
        loop {
            let ended = self.ended.load(Ordering::Relaxed);
            if self.has_left() {
                return;
            }
            let rest = total.saturating_sub(self.next.load(Ordering::Relaxed));
            if !has_all && rest > 0 && self.ended.load(Ordering::Relaxed) == ended {
                has_all = true;
                self.start(scope, rest);
            }
        }
    }

    /// Waits for [`PATIENCE`], or until all threads have left. Returns whether they have.
    fn has_left(&self) -> bool {
        let mut threads = self.threads.lock();
        if threads.count > 0 {
            self.changed.wait_for(&mut threads, PATIENCE);
        }
        if self.failed.load(Ordering::Relaxed) {
            threads.guards.iter().for_each(|guard| guard.cancel());
        }
        threads.count == 0
    }

    /// Starts threads, and lets them begin when all are prepared.
    fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, count: u64) {
        let _closed = self.gate.write();
        for _ in 0..count {
            let builder = Builder::new().name("longshore-group".to_owned());
            self.threads.lock().count += 1;
            let thread = builder.stack_size(STACK_BYTES).spawn_scoped(scope, || self.serve());
            if let Err(error) = thread {
                self.go_on_without(error);
                break;
            }
        }
        let mut threads = self.threads.lock();
        self.changed.wait_while(&mut threads, |threads| threads.guards.len() < threads.count);
    }

    /// Reports that a thread could not be started. Without any thread, the launch has failed.
    fn go_on_without(&self, error: std::io::Error) {
        let mut threads = self.threads.lock();
        threads.count -= 1;
        if threads.count > 0 {
            log::warn!("a cooperative launch has fewer threads than groups: {error}");
            return;
        }
        self.failed.store(true, Ordering::Relaxed);
        let cause = Cause::NoThread(error);
        self.run.keep(Fault { cause, group: 0, item: None, earlier_code: None });
    }

    /// Runs one group after the other on this thread.
    fn serve(&self) {
        let guard = Guard::for_thread();
        // The thread keeps this memory for its groups.
        drop(SharedMemory::take());
        self.threads.lock().guards.push(guard);
        self.changed.notify_one();
        drop(self.gate.read());
        while let Some(number) = self.next_group() {
            // The supervisor would wait for a panicked thread for ever.
            let body = AssertUnwindSafe(|| self.run.run(number, number + 1));
            if !catch_unwind(body).unwrap_or(false) {
                self.failed.store(true, Ordering::Relaxed);
            }
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        let mut threads = self.threads.lock();
        threads.guards.retain(|other| !std::ptr::eq(*other, guard));
        guard.stay();
        threads.count -= 1;
        self.changed.notify_one();
    }

    fn next_group(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let goes_on = number < self.run.total() && !self.failed.load(Ordering::Relaxed);
        goes_on.then_some(number)
    }
}

#[cfg(test)]
mod tests;
