//! Counts of allocations: in total, by kind, by call site, and over time.

use super::super::block::Use;
use super::memory_use::{Change, KINDS, MemoryUse};
use super::report::{CallSite, MemoryReport};
use super::timeline::Timeline;
use longshore_plugin_api::MemoryKind;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::panic::Location;
use std::time::Duration;

/// The counts of allocations so far.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    total: MemoryUse,
    kinds: [MemoryUse; KINDS],
    sites: HashMap<&'static Location<'static>, MemoryUse>,
    timeline: Timeline,
}

impl Ledger {
    /// Creates a ledger of live allocations whose history is unknown.
    pub(crate) fn from_live(live: impl IntoIterator<Item = (MemoryKind, Use)>) -> Ledger {
        let mut ledger = Ledger::default();
        for (kind, user) in live {
            ledger.count(Change::Allocated, kind, user);
        }
        ledger
    }

    /// Counts a change. `at` must not be less than in an earlier call.
    pub(super) fn apply(&mut self, at: Duration, change: Change, kind: MemoryKind, user: Use) {
        self.count(change, kind, user);
        self.timeline.push(at, self.kinds.map(|kind| kind.live_bytes));
    }

    /// Returns the report of the device or host called `name`, after `elapsed` of tracking. The
    /// cached blocks are left at 0.
    pub(crate) fn report(self, name: &str, elapsed: Duration, tracked: bool) -> MemoryReport {
        let sites = self.sites.into_iter();
        let mut sites: Vec<_> =
            sites.map(|(location, memory)| CallSite { location, memory }).collect();
        sites.sort_by_key(|CallSite { location, memory }| {
            (Reverse(memory.peak_bytes), location.file(), location.line(), location.column())
        });
        MemoryReport {
            name: name.to_owned(),
            tracked,
            elapsed,
            total: self.total,
            kinds: self.kinds,
            cached_blocks: 0,
            cached_bytes: 0,
            sites,
            timeline: self.timeline.into_points(),
        }
    }

    fn count(&mut self, change: Change, kind: MemoryKind, user: Use) {
        let site = self.sites.entry(user.location).or_default();
        for counted in [&mut self.total, &mut self.kinds[kind as usize], site] {
            counted.apply(change, user.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_sites_have_peaks_of_their_own() {
        let [first, second] = [(); 2].map(|()| Location::caller());
        let other = Location::caller();
        assert_eq!(first, second);
        let mut ledger = Ledger::default();
        let mut apply = |ms, change, kind, bytes, location| {
            ledger.apply(Duration::from_millis(ms), change, kind, Use { bytes, location });
        };
        apply(1, Change::Allocated, MemoryKind::Device, 100, first);
        apply(2, Change::Allocated, MemoryKind::Host, 30, other);
        apply(3, Change::Freed, MemoryKind::Device, 100, first);
        apply(4, Change::Allocated, MemoryKind::Device, 60, second);
        let report = ledger.report("x", Duration::from_millis(5), true);
        assert_eq!((report.total.peak_bytes, report.total.live_bytes), (130, 90));
        let device = report.kind(MemoryKind::Device);
        assert_eq!((device.peak_bytes, device.live_bytes, device.total_bytes), (100, 60, 160));
        assert_eq!(report.kind(MemoryKind::Managed), MemoryUse::default());
        let sites: Vec<_> =
            report.sites.iter().map(|s| (s.location, s.memory.peak_bytes)).collect();
        assert_eq!(sites, [(first, 100), (other, 30)]);
        let total: Vec<_> = report.timeline.iter().map(|point| point.total_bytes()).collect();
        assert_eq!(total, [100, 130, 30, 90]);
    }
}
