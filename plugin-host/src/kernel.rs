//! Kernels as the engine runs them, and the limits of their groups.

pub(crate) mod abi;

use abi::{GroupEntry, HostEntry};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most work-items of a group of any kernel, which is the usual limit of GPUs.
pub(crate) const MOST_GROUP_ITEMS: u32 = 1024;
/// Most bytes of declared shared memory of a group, and most bytes of dynamic shared memory.
pub(crate) const SHARED_BYTES: u64 = 64 << 10;
/// Units of cost per nanosecond. Costs are in picoseconds: small groups take less than a
/// nanosecond.
pub(crate) const COST_PER_NS: u128 = 1000;

/// A kernel with its name in the image.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Code,
}

/// A kernel's code, by the form in which it is called.
#[derive(Debug)]
pub(crate) enum Code {
    /// LLVM's host form.
    Host(HostEntry),
    /// A kernel made with `longshore_device.h`.
    Groups(GroupCode),
}

/// A work-group kernel.
#[derive(Debug)]
pub(crate) struct GroupCode {
    pub(crate) entry: GroupEntry,
    pub(crate) mode: Mode,
    /// Whether groups wait for each other.
    pub(crate) has_grid_barrier: bool,
    /// Required group size; 0 in an open dimension.
    pub(crate) required_group: [u32; 3],
    /// Estimated picoseconds of a group; 0 before the first measurement.
    cost: AtomicU64,
}

/// The execution of a group's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A loop over the items, which calls the code of one item.
    Loop,
    /// Loops over the items in the group's own code, one after the other.
    Regions,
    /// A separate stack for each item.
    Fibers,
}

#[cfg(test)]
impl Kernel {
    pub(crate) fn host_form(name: &str, entry: HostEntry) -> Kernel {
        Kernel { name: name.to_owned(), code: Code::Host(entry) }
    }

    pub(crate) fn work_group_form(name: &str, entry: GroupEntry) -> Kernel {
        let code = Code::Groups(GroupCode::new(entry, Mode::Loop, false, [0; 3]));
        Kernel { name: name.to_owned(), code }
    }
}

impl GroupCode {
    pub(crate) fn new(
        entry: GroupEntry,
        mode: Mode,
        has_grid_barrier: bool,
        required_group: [u32; 3],
    ) -> GroupCode {
        GroupCode { entry, mode, has_grid_barrier, required_group, cost: AtomicU64::new(0) }
    }

    /// Returns the estimated picoseconds of a group; 0 before the first measurement.
    #[inline]
    pub(crate) fn cost(&self) -> u64 {
        self.cost.load(Ordering::Relaxed)
    }

    /// Adds a measured cost of a group, in picoseconds, to the estimate.
    #[inline]
    pub(crate) fn add_measured_cost(&self, measured: u64) {
        let cost = match self.cost() {
            0 => measured,
            known => known / 4 * 3 + measured / 4,
        };
        self.cost.store(cost.max(1), Ordering::Relaxed);
    }
}
