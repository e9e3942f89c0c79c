//! The order that atomic operations and fences make between groups, and between items of a group.
//!
//! A release by an item covers the item's accesses, and its group's accesses before the last
//! barrier.
//! An acquire orders the acquiring group after all releases of the same variable before it. A
//! relaxed operation counts as both once the group has executed a fence: that is how kernels find
//! the last group. The order is never smaller than the language's, so no report is wrong for it.

use super::group::Group;
use super::intervals::Intervals;
use std::collections::HashMap;

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
}

#[derive(Default)]
struct Variable {
    groups: Intervals,
    /// The group of the last release, and its releasing items.
    group: u64,
    items: Intervals,
}

#[derive(Default)]
struct Released {
    epoch: u32,
    items: Intervals,
}

/// An atomic operation.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) address: u64,
    pub(crate) order: u32,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Order {
    /// Returns whether any group has released something.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        !self.released.is_empty()
    }

    /// Records an atomic operation of an item.
    pub(crate) fn operate(&mut self, group: &mut Group, item: u32, operation: Operation) {
        let Operation { address, order, reads, writes } = operation;
        let is = |orders: &[u32]| orders.contains(&order) || group.is_fenced;
        let releases = writes && is(&[RELEASE, ACQUIRE_RELEASE, SEQUENTIAL]);
        if !releases && self.variables.is_empty() {
            return;
        }
        let acquires = reads && is(&[ACQUIRE, ACQUIRE_RELEASE, SEQUENTIAL]);
        if let Some(variable) = self.variables.get(&address).filter(|_| reads) {
            match acquires {
                true => group.acquired.insert_all(&variable.groups),
                false => group.pending.insert_all(&variable.groups),
            }
            if acquires && variable.group == group.number {
                let items = group.acquired_items.entry(item).or_default();
                items.insert_all(&variable.items);
            }
        }
        if releases {
            self.release(group, item, address);
        }
    }

    fn release(&mut self, group: &mut Group, item: u32, address: u64) {
        let released = self.released.entry(group.number).or_default();
        released.epoch = released.epoch.max(group.epoch);
        released.items.insert(item.into());
        let variable = self.variables.entry(address).or_default();
        if variable.group != group.number {
            (variable.group, variable.items) = (group.number, Intervals::default());
        }
        variable.groups.insert_all(&group.acquired);
        variable.groups.insert(group.number);
        if let Some(items) = group.acquired_items.get(&item) {
            variable.items.insert_all(items);
        }
        variable.items.insert(item.into());
    }

    /// Records a fence.
    pub(crate) fn fence(&mut self, group: &mut Group) {
        group.is_fenced = true;
        let pending = std::mem::take(&mut group.pending);
        group.acquired.insert_all(&pending);
    }

    /// Returns whether an item's access is ordered before the current item of `group`.
    pub(crate) fn is_before(
        &self,
        (other, epoch, other_item): (u64, u32, u32),
        group: &Group,
        item: u32,
    ) -> bool {
        if other == group.number {
            let items = group.acquired_items.get(&item);
            return items.is_some_and(|items| items.contains(other_item.into()));
        }
        let released = self.released.get(&other).filter(|_| group.acquired.contains(other));
        released.is_some_and(|released| {
            epoch < released.epoch || released.items.contains(other_item.into())
        })
    }
}
