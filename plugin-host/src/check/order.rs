//! The order that atomic operations and fences make between groups, and between items of a group.
//!
//! A release by an item covers the item's accesses before it, and its group's accesses before the
//! last barrier.
//! An acquire orders the acquiring group after all releases of the same variable before it. A
//! relaxed operation counts as both once the group has executed a fence: that is how kernels find
//! the last group. As a release, it covers the item's accesses before the item's last fence. The
//! order is never smaller than the language's, so no report is wrong for it.
//!
//! An item's accesses behind a fence or a release have a segment of their own.

use super::clocks::Clocks;
use super::group::{Block, Group, SUBGROUP_ITEMS};
use super::region::Record;
use std::collections::{HashMap, HashSet};

/// LLVM's numbers of memory orders.
const ACQUIRE: u32 = 4;
const RELEASE: u32 = 5;
const ACQUIRE_RELEASE: u32 = 6;
const SEQUENTIAL: u32 = 7;

/// The atomic variables of a launch, and the groups' releases.
#[derive(Default)]
pub(crate) struct Order {
    variables: HashMap<u64, Variable>,
    released: HashMap<u64, Released>,
    has_fences: bool,
    /// Address of the running loop's first site, or 0, and of all loops with fences or releases.
    current_loop: usize,
    parted_loops: HashSet<usize>,
}

#[derive(Default)]
struct Variable {
    /// Numbers of the groups' last releases.
    groups: Clocks,
    /// The group of the last release, and numbers of its items' last releases.
    group: u64,
    items: Clocks,
}

/// The releases of a group.
#[derive(Default)]
struct Released {
    /// The epoch of each release; the first one has number 1.
    epochs: Vec<u32>,
    items: HashMap<u32, Vec<Release>>,
}

/// A release of an item's accesses.
#[derive(Clone, Copy)]
struct Release {
    /// Number among the releases of the group.
    number: u32,
    /// The release covers accesses with segments below the first one, and atomic accesses with
    /// segments below the other one.
    ends: [u32; 2],
}

/// An atomic operation.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) address: u64,
    pub(crate) order: u32,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// A recorded access.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) record: Record,
    pub(crate) block: Block,
    pub(crate) item: u32,
}

impl Operation {
    fn is_acquire(self) -> bool {
        self.reads && [ACQUIRE, ACQUIRE_RELEASE, SEQUENTIAL].contains(&self.order)
    }

    pub(crate) fn is_release(self) -> bool {
        self.writes && [RELEASE, ACQUIRE_RELEASE, SEQUENTIAL].contains(&self.order)
    }
}

impl Order {
    /// Returns whether any group has released something, or executed a fence.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.has_fences || !self.released.is_empty()
    }

    /// Begins a loop over items, which has a site at an address. Returns whether fences or releases
    /// part the accesses of its items, so that these are recorded one by one.
    pub(crate) fn begin_loop(&mut self, site: usize) -> bool {
        self.current_loop = site;
        self.parted_loops.contains(&site)
    }

    /// Ends the loop over items.
    pub(crate) fn end_loop(&mut self) {
        self.current_loop = 0;
    }

    /// Notes a fence or release in the loop over items.
    pub(crate) fn part_loop(&mut self) {
        if self.current_loop != 0 {
            self.parted_loops.insert(self.current_loop);
        }
    }

    /// Orders the current item after the releases of a variable.
    pub(crate) fn acquire(&mut self, group: &mut Group, item: u32, operation: Operation) {
        let Some(variable) = self.variables.get(&operation.address).filter(|_| operation.reads)
        else {
            return;
        };
        let acquires = operation.is_acquire() || group.is_fenced;
        match acquires {
            true => group.acquired.raise_all(&variable.groups),
            false => group.pending.raise_all(&variable.groups),
        }
        if variable.group == group.number {
            let own = group.acquired_items.entry(item).or_default();
            match acquires {
                true => own.items.raise_all(&variable.items),
                false => own.pending.raise_all(&variable.items),
            }
        }
    }

    /// Records a release by an operation on a variable.
    pub(crate) fn release(&mut self, group: &Group, item: u32, address: u64, ends: [u32; 2]) {
        let variable = self.variables.entry(address).or_default();
        if variable.group != group.number {
            (variable.group, variable.items) = (group.number, Clocks::default());
        }
        variable.groups.raise_all(&group.acquired);
        if let Some(own) = group.acquired_items.get(&item) {
            variable.items.raise_all(&own.items);
        }
        let released = self.released.entry(group.number).or_default();
        let mut add = |item: u32, ends| {
            let (number, own) = released.add(group.epoch, item, ends);
            variable.groups.raise(group.number, number);
            variable.items.raise(item.into(), own);
        };
        // An exchange has ordered accesses by other items of the sub-group.
        for (lane, end) in (0..).zip(group.exchanged(item)) {
            let other = item / SUBGROUP_ITEMS * SUBGROUP_ITEMS + lane;
            if *end != 0 && other != item {
                add(other, [*end; 2]);
            }
        }
        add(item, ends);
    }

    /// Records a fence.
    pub(crate) fn fence(&mut self, group: &mut Group, item: u32) {
        self.has_fences = true;
        group.is_fenced = true;
        let pending = std::mem::take(&mut group.pending);
        group.acquired.raise_all(&pending);
        if let Some(own) = group.acquired_items.get_mut(&item) {
            own.items.raise_all(&std::mem::take(&mut own.pending));
        }
    }

    /// Returns whether an access is ordered before the current item of `group`.
    pub(crate) fn is_before(&self, access: Access, group: &Group, item: u32) -> bool {
        let Access { block, item: other, .. } = access;
        let Some(released) = self.released.get(&block.group) else { return false };
        if block.group == group.number {
            let acquired = group.acquired_items.get(&item);
            let number = acquired.map_or(0, |own| own.items.get(other.into()));
            return released.release(other, number).is_some_and(|it| it.covers(access.record));
        }
        let number = group.acquired.get(block.group);
        let epoch = (number as usize).checked_sub(1).map(|index| released.epochs[index]);
        epoch.is_some_and(|epoch| {
            let release = || released.last_release(other, number);
            block.epoch < epoch || release().is_some_and(|it| it.covers(access.record))
        })
    }
}

impl Released {
    /// Adds a release of an item's accesses. Returns its number among the group's releases, and
    /// among the item's.
    fn add(&mut self, epoch: u32, item: u32, ends: [u32; 2]) -> (u32, u32) {
        let own = self.items.entry(item).or_default();
        let mut new = Release { number: self.epochs.len() as u32 + 1, ends };
        if let Some(last) = own.last() {
            for (end, known) in new.ends.iter_mut().zip(last.ends) {
                *end = known.max(*end);
            }
            if new.ends == last.ends && self.epochs[last.number as usize - 1] == epoch {
                return (last.number, own.len() as u32);
            }
        }
        self.epochs.push(epoch);
        own.push(new);
        (new.number, own.len() as u32)
    }

    /// Returns the item's release with a number among the item's releases.
    fn release(&self, item: u32, number: u32) -> Option<Release> {
        let index = (number as usize).checked_sub(1)?;
        self.items.get(&item)?.get(index).copied()
    }

    /// Returns the item's last release up to a number among the group's releases.
    fn last_release(&self, item: u32, number: u32) -> Option<Release> {
        let own = self.items.get(&item)?;
        let count = own.partition_point(|release| release.number <= number);
        own[..count].last().copied()
    }
}

impl Release {
    fn covers(&self, record: Record) -> bool {
        record.segment() < self.ends[usize::from(record.is_atomic())]
    }
}
