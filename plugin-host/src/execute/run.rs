//! One launch of a work-group kernel, and the execution of its groups on a thread.

use super::fault::{Cause, Fault};
use super::fibers::{Call, Group};
use super::memory::SharedMemory;
use super::runtime;
use crate::guard::{Guard, Stop};
use crate::kernel::abi::Work;
use crate::kernel::{COST_PER_NS, GroupCode, Mode, SHARED_BYTES};
use longshore_plugin_api::LaunchShape;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Time limit of the search for the failed item.
const TRACE_LIMIT: Duration = Duration::from_millis(500);

/// A running launch of a work-group kernel.
pub(super) struct Run<'a> {
    pub(super) code: &'a GroupCode,
    pub(super) call: Call,
    pub(super) shape: &'a LaunchShape,
    /// The first fault.
    fault: Mutex<Option<Fault>>,
}

// SAFETY: the creator of the run vouches for running the kernel with these arguments, on any
// thread.
unsafe impl Sync for Run<'_> {}

impl<'a> Run<'a> {
    /// Creates the run of a launch, before its first group.
    ///
    /// # Safety
    /// The kernel may be run with these arguments, on any thread.
    #[inline]
    pub(super) unsafe fn new(code: &'a GroupCode, call: Call, shape: &'a LaunchShape) -> Run<'a> {
        Run { code, call, shape, fault: Mutex::new(None) }
    }

    /// Returns the mode in which the items of this launch's groups run.
    #[inline]
    pub(super) fn mode(&self) -> Mode {
        self.code.mode.for_group(self.shape.items)
    }

    /// Returns the number of groups.
    #[inline]
    pub(super) fn total(&self) -> u64 {
        self.shape.groups.iter().map(|count| u64::from(*count)).product()
    }

    /// Runs groups on this thread. If a group fails, keeps its fault and returns `false`.
    #[inline]
    pub(super) fn run(&self, begin: u64, end: u64) -> bool {
        let shared = SharedMemory::take();
        let mut work = self.work(&shared);
        let result = match self.mode() {
            Mode::Fibers => self.run_fibers(&work, begin, end),
            Mode::Loop | Mode::Regions | Mode::ItemLoops(_) => {
                (work.begin, work.end) = (begin, end);
                // SAFETY: the creator of the run vouches for the kernel.
                let result = unsafe {
                    let call = self.call;
                    Guard::for_thread().call(call.entry, call.arguments, &raw mut work)
                };
                result.map_err(|stop| self.trace(stop, work))
            }
        };
        result.map_err(|fault| self.keep(fault)).is_ok()
    }

    fn run_fibers(&self, work: &Work, begin: u64, end: u64) -> Result<(), Fault> {
        for number in begin..end {
            let mut group = Group::new(work, number, false, self.call);
            // SAFETY: the creator of the run vouches for the kernel.
            unsafe { group.advance() }?;
        }
        Ok(())
    }

    /// Returns the values that kernels of this launch are called with, before the choice of a
    /// group.
    #[inline]
    pub(super) fn work(&self, shared: &SharedMemory) -> Work {
        let shape = self.shape;
        Work {
            begin: 0,
            end: 0,
            groups: shape.groups,
            items: shape.items,
            first: [0; 3],
            last: shape.items,
            item: [0; 3],
            traced: 0,
            group: 0,
            fixed: shared.fixed(),
            dynamic: shared.dynamic(shape.dynamic_shared_bytes),
            fixed_bytes: SHARED_BYTES,
            dynamic_bytes: shape.dynamic_shared_bytes,
            calls: &runtime::CALLS,
        }
    }

    /// Finds the failed item: runs the group again, with code that records its items. If the second
    /// run does not fail, or takes too long, the item stays unknown. The second run prints no
    /// messages, because the first run has printed them.
    #[cold]
    fn trace(&self, stop: Stop, work: Work) -> Fault {
        let group = work.group;
        if let Stop::Cancelled = stop {
            return Fault { cause: Cause::Stop(stop), group, item: None, earlier_code: None };
        }
        if let Mode::ItemLoops(_) = self.mode() {
            return self.trace_fibers(stop, work);
        }
        let calls = &runtime::CALLS_OF_TRACE;
        let mut again = Work { begin: group, end: group + 1, traced: 1, calls, ..work };
        // SAFETY: the same facts hold as for the first run.
        let result = unsafe {
            let call = self.call;
            Guard::for_thread().call_for(TRACE_LIMIT, call.entry, call.arguments, &raw mut again)
        };
        let is_found = matches!(
            result,
            Err(Stop::Signal(_) | Stop::Failed(_) | Stop::Ended(_) | Stop::NotLinked(_))
        );
        let (cause, item) = (Cause::on_thread(stop), is_found.then_some(again.item));
        Fault { cause, group, item, earlier_code: None }
    }

    /// Finds the failed item of a group in [`Mode::ItemLoops`]: runs the group again with a stack
    /// for each item. The second run also finds items that wait at different places.
    #[cold]
    fn trace_fibers(&self, stop: Stop, work: Work) -> Fault {
        let mut again = Group::new(&work, work.group, false, self.call);
        again.silence();
        let result = Guard::for_thread().with_limit(TRACE_LIMIT, || {
            // SAFETY: the same facts hold as for the first run.
            unsafe { again.advance() }
        });
        let cause = Cause::on_thread(stop);
        match result {
            Some(Err(fault)) if !matches!(fault.cause, Cause::Stop(Stop::TimedOut)) => {
                let earlier_code = cause.code();
                Fault { earlier_code, ..fault }
            }
            _ => Fault { cause, group: work.group, item: None, earlier_code: None },
        }
    }

    /// Keeps a fault if it is the first.
    #[cold]
    pub(super) fn keep(&self, fault: Fault) {
        let mut kept = self.fault.lock();
        kept.get_or_insert(fault);
    }

    /// Returns the first fault of a failed run.
    pub(super) fn into_fault(self) -> Fault {
        let fault = self.fault.into_inner();
        fault.unwrap_or(Fault { cause: Cause::Panicked, group: 0, item: None, earlier_code: None })
    }

    /// Runs `body`, which runs groups `begin..end` on `threads` threads, and records the cost of a
    /// group.
    #[inline]
    pub(super) fn timed(
        &self,
        begin: u64,
        end: u64,
        threads: u64,
        body: impl FnOnce(&Self) -> bool,
    ) -> bool {
        let start = Instant::now();
        let finished = body(self);
        let spent = start.elapsed().as_nanos() * COST_PER_NS * u128::from(threads.min(end - begin));
        let measured = u64::try_from(spent / u128::from(end - begin)).unwrap_or(u64::MAX).max(1);
        self.code.add_measured_cost(measured);
        finished
    }
}
