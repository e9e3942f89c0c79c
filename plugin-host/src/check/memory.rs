//! The memory of a platform's devices, and freed allocations in quarantine.

use super::images;
use super::kinds::Kinds;
use super::region::{Kind, Region};
use longshore_plugin_api::MemoryKind;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Most bytes of freed allocations whose accesses are still recognised.
const QUARANTINE_BYTES: u64 = 256 << 20;
/// Most such allocations.
const QUARANTINE_COUNT: usize = 4096;

/// All checkers of the process, which copies of memory concern.
static CHECKERS: RwLock<Vec<Weak<Checker>>> = RwLock::new(Vec::new());
static HAS_CHECKERS: AtomicBool = AtomicBool::new(false);

/// The memory of a platform's devices, and the errors to look for.
pub(crate) struct Checker {
    pub(crate) kinds: Kinds,
    regions: Mutex<Regions>,
    /// Changes when a region ends, so that sites look for their region again.
    version: AtomicU64,
}

/// The version of the next change; equal in no two checkers.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

#[derive(Default)]
struct Regions {
    /// Live and freed regions by their start; they do not overlap.
    by_start: BTreeMap<u64, Arc<Region>>,
    /// The freed regions, with the owners of their memory.
    quarantine: VecDeque<Freed>,
    quarantined: u64,
}

struct Freed {
    region: Arc<Region>,
    /// The owner of the memory, which gives it back when dropped.
    _memory: Box<dyn Send>,
}

impl Checker {
    pub(crate) fn new(kinds: Kinds) -> Arc<Checker> {
        let version = AtomicU64::new(NEXT_VERSION.fetch_add(1, Ordering::Relaxed));
        let checker = Arc::new(Checker { kinds, regions: Mutex::default(), version });
        let mut checkers = CHECKERS.write();
        checkers.retain(|checker| checker.strong_count() > 0);
        checkers.push(Arc::downgrade(&checker));
        HAS_CHECKERS.store(true, Ordering::Relaxed);
        checker
    }

    /// Returns the number that changes when a region ends.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Enters an allocation.
    pub(crate) fn allocated(&self, kind: MemoryKind, start: u64, bytes: u64) {
        // The host writes to the other kinds without the queue.
        let is_tracked = self.kinds.initialized && kind == MemoryKind::Device;
        self.add(Region::new(start, bytes, Kind::Allocation(kind), is_tracked));
    }

    /// Enters memory of the device's heap.
    pub(crate) fn allocated_on_heap(&self, start: u64, bytes: u64) {
        self.add(Region::new(start, bytes, Kind::Heap, self.kinds.initialized));
    }

    /// Enters a pinned range of the program's memory.
    pub(crate) fn pinned(&self, start: u64, bytes: u64) {
        if self.region_of(start).is_none() {
            self.add(Region::new(start, bytes, Kind::Pinned, false));
        }
    }

    fn add(&self, region: Region) {
        let mut regions = self.regions.lock();
        regions.by_start.insert(region.start, Arc::new(region));
    }

    /// Removes a region whose memory the program keeps.
    pub(crate) fn removed(&self, start: u64) {
        let mut regions = self.regions.lock();
        if regions.by_start.get(&start).is_some_and(|region| region.kind == Kind::Pinned) {
            regions.by_start.remove(&start).inspect(|region| region.hide());
        }
        drop(regions);
        self.change();
    }

    /// Puts a freed allocation into quarantine: `memory` is dropped later.
    pub(crate) fn freed(&self, start: u64, memory: Box<dyn Send>) {
        let mut dropped = Vec::new();
        let mut regions = self.regions.lock();
        let Some(region) = regions.by_start.get(&start).cloned() else { return };
        region.is_freed.set(true);
        region.hide();
        regions.quarantined += region.bytes;
        regions.quarantine.push_back(Freed { region, _memory: memory });
        while regions.quarantined > QUARANTINE_BYTES || regions.quarantine.len() > QUARANTINE_COUNT
        {
            let Some(oldest) = regions.quarantine.pop_front() else { break };
            regions.quarantined -= oldest.region.bytes;
            regions.by_start.remove(&oldest.region.start);
            dropped.push(oldest);
        }
        drop(regions);
        self.change();
        drop(dropped);
    }

    /// Lets all sites look for their regions again.
    pub(crate) fn change(&self) {
        let version = NEXT_VERSION.fetch_add(1, Ordering::Relaxed);
        self.version.store(version, Ordering::Relaxed);
    }

    /// Returns the region of an address, also a freed one.
    pub(crate) fn region_of(&self, address: u64) -> Option<Arc<Region>> {
        let regions = self.regions.lock();
        let (_, region) = regions.by_start.range(..=address).next_back()?;
        region.contains(address, 1).then(|| Arc::clone(region))
    }

    /// Returns the region nearest to an address that is in none.
    pub(crate) fn nearest(&self, address: u64) -> Option<Arc<Region>> {
        let regions = self.regions.lock();
        let before = regions.by_start.range(..=address).next_back().map(|(_, region)| region);
        let after = regions.by_start.range(address..).next().map(|(_, region)| region);
        let distance = |region: &&Arc<Region>| match region.start > address {
            true => region.start - address,
            false => address - (region.start + region.bytes).min(address),
        };
        before.into_iter().chain(after).min_by_key(distance).cloned()
    }

    /// Forgets all accesses: their segments are used again.
    pub(crate) fn forget_accesses(&self) {
        self.regions.lock().by_start.values().for_each(|region| region.forget_accesses());
        images::forget_accesses();
    }
}

/// Lets all sites look for their regions again.
pub(crate) fn change_all() {
    CHECKERS.read().iter().filter_map(Weak::upgrade).for_each(|checker| checker.change());
}

/// Marks memory that a queue has copied, for all checkers.
#[inline]
pub(crate) fn copied(to: u64, from: u64, bytes: u64) {
    if HAS_CHECKERS.load(Ordering::Relaxed) {
        mark(to, Some(from), bytes);
    }
}

/// Marks memory that a queue has written, for all checkers.
#[inline]
pub(crate) fn written(to: u64, bytes: u64) {
    if HAS_CHECKERS.load(Ordering::Relaxed) {
        mark(to, None, bytes);
    }
}

#[cold]
fn mark(to: u64, from: Option<u64>, bytes: u64) {
    for checker in CHECKERS.read().iter().filter_map(Weak::upgrade) {
        let Some(region) = checker.region_of(to).filter(|region| region.contains(to, bytes)) else {
            continue;
        };
        let source = from.and_then(|from| {
            let source = checker.region_of(from)?;
            source.contains(from, bytes).then_some((source, from))
        });
        let source = source.as_ref().map(|(source, from)| (&**source, from - source.start));
        region.copy_marks(to - region.start, source, bytes);
    }
}
