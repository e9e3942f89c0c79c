//! Memory tracking: counts, call sites and call stacks of a program's allocations.
//!
//! Tracking is off by default. [`DeviceMemory`](super::DeviceMemory) then spends one branch on an
//! allocation, and one on a free. Tracking only observes: it has no influence on the allocations
//! themselves. The program's requests are counted: a block reused from the cache counts again, a
//! block in the cache does not.

mod call_stack;
mod leaks;
mod ledger;
mod memory_use;
#[cfg(feature = "svg")]
mod picture;
mod report;
mod text_table;
mod timeline;

pub use call_stack::CallStack;
pub use memory_use::MemoryUse;
pub use report::{CallSite, MemoryReport};
pub use timeline::TimelinePoint;

pub(crate) use leaks::LeakTable;
pub(crate) use ledger::Ledger;

use super::block::{Block, Use};
use longshore_plugin_api::MemoryKind;
use memory_use::Change;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The allocations of all devices of a host, since the host was created.
pub(crate) struct HostTracker {
    start: Instant,
    ledger: Mutex<Ledger>,
}

impl HostTracker {
    pub(crate) fn new() -> HostTracker {
        HostTracker { start: Instant::now(), ledger: Mutex::default() }
    }

    /// Returns a copy of the counts, and the time of tracking.
    pub(crate) fn snapshot(&self) -> (Ledger, Duration) {
        let ledger = self.ledger.lock();
        (ledger.clone(), self.start.elapsed())
    }
}

/// The allocations of one device. Each change counts for the host as well.
pub(crate) struct DeviceTracker {
    host: Arc<HostTracker>,
    state: Mutex<State>,
}

/// The counts of one device. The host's ledger is changed while this state is locked, so both
/// ledgers have the same order.
#[derive(Default)]
struct State {
    ledger: Ledger,
    /// Live allocations by address.
    live: HashMap<u64, Live>,
    closed: bool,
}

struct Live {
    kind: MemoryKind,
    user: Use,
    stack: CallStack,
}

impl DeviceTracker {
    pub(crate) fn new(host: Arc<HostTracker>) -> DeviceTracker {
        DeviceTracker { host, state: Mutex::default() }
    }

    /// Counts a block that was taken into use, with the call stack of this call.
    #[cold]
    pub(super) fn allocated(&self, block: &Block) {
        let (kind, user) = (block.kind, block.current_use());
        let stack = CallStack::capture(user.location);
        let mut state = self.state.lock();
        // Closing the device has freed the block.
        if state.closed {
            return;
        }
        self.change(&mut state.ledger, Change::Allocated, kind, user);
        state.live.insert(block.address, Live { kind, user, stack });
    }

    /// Counts the end of a block's use. Called before another allocation can have the address.
    #[cold]
    pub(super) fn freed(&self, block: &Block) {
        let mut state = self.state.lock();
        if let Some(Live { kind, user, .. }) = state.live.remove(&block.address) {
            self.change(&mut state.ledger, Change::Freed, kind, user);
        }
    }

    /// Counts all live allocations as leaked, and returns their call stacks by address.
    pub(super) fn close(&self) -> HashMap<u64, CallStack> {
        let mut state = self.state.lock();
        state.closed = true;
        let live = std::mem::take(&mut state.live);
        let leaked = live.into_iter().map(|(address, Live { kind, user, stack })| {
            self.change(&mut state.ledger, Change::Leaked, kind, user);
            (address, stack)
        });
        leaked.collect()
    }

    /// Returns a copy of the counts, and the time of tracking.
    pub(super) fn snapshot(&self) -> (Ledger, Duration) {
        let state = self.state.lock();
        (state.ledger.clone(), self.host.start.elapsed())
    }

    /// Counts a change for the device and for its host.
    fn change(&self, ledger: &mut Ledger, change: Change, kind: MemoryKind, user: Use) {
        let mut host = self.host.ledger.lock();
        let at = self.host.start.elapsed();
        ledger.apply(at, change, kind, user);
        host.apply(at, change, kind, user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::Location;

    #[track_caller]
    fn block(address: u64, bytes: u64) -> Block {
        let user = Use { bytes, location: Location::caller() };
        Block::new(address, 4096, MemoryKind::Device, 1, None, user)
    }

    fn total(tracker: &DeviceTracker) -> MemoryUse {
        tracker.snapshot().0.report("", Duration::ZERO, true).total
    }

    #[test]
    fn a_device_and_its_host_count_alike() {
        let host = Arc::new(HostTracker::new());
        let [first, second] = [(); 2].map(|()| DeviceTracker::new(Arc::clone(&host)));
        let (a, b) = (block(0x1000, 100), block(0x2000, 50));
        first.allocated(&a);
        second.allocated(&b);
        first.freed(&a);
        assert_eq!((total(&first).live_bytes, total(&first).peak_bytes), (0, 100));
        let all = host.snapshot().0.report("", Duration::ZERO, true).total;
        assert_eq!((all.live_bytes, all.peak_bytes, all.total_count), (50, 150, 2));
    }

    #[test]
    fn live_allocations_at_the_close_have_leaked_and_later_changes_do_not_count() {
        let tracker = DeviceTracker::new(Arc::new(HostTracker::new()));
        let (kept, freed, late) = (block(0x1000, 100), block(0x2000, 50), block(0x3000, 7));
        tracker.allocated(&kept);
        tracker.allocated(&freed);
        tracker.freed(&freed);
        assert_eq!(tracker.close().into_keys().collect::<Vec<_>>(), [0x1000]);
        tracker.freed(&kept);
        tracker.allocated(&late);
        let total = total(&tracker);
        assert_eq!((total.leaked_count, total.leaked_bytes), (1, 100));
        assert_eq!((total.live_count, total.live_bytes, total.total_count), (0, 0, 2));
    }

    #[test]
    fn counts_are_exact_with_many_threads() {
        let tracker = DeviceTracker::new(Arc::new(HostTracker::new()));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let tracker = &tracker;
                scope.spawn(move || {
                    for i in 0..100 {
                        let block = block((thread << 32) + i, 10);
                        tracker.allocated(&block);
                        if i % 2 == 0 {
                            tracker.freed(&block);
                        }
                    }
                });
            }
        });
        let total = total(&tracker);
        assert_eq!((total.live_count, total.live_bytes), (200, 2000));
        assert_eq!((total.total_count, total.total_bytes), (400, 4000));
    }
}
