//! Kernels as the engine runs them, and the limits of their groups.

pub(crate) mod abi;

use abi::{GroupEntry, HostEntry};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most items of a group, whatever the kernel: the limit that GPUs have.
pub(crate) const MOST_GROUP_ITEMS: u32 = 1024;
/// Bytes of shared memory that a group may have: as many that kernels declare, and as many dynamic.
pub(crate) const SHARED_BYTES: u64 = 64 << 10;
/// Costs are kept in picoseconds: small groups take less than a nanosecond.
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
    /// Made with `longshore_device.h`.
    Groups(GroupCode),
}

/// A work-group kernel.
#[derive(Debug)]
pub(crate) struct GroupCode {
    pub(crate) entry: GroupEntry,
    pub(crate) mode: Mode,
    /// Whether groups wait for each other.
    pub(crate) has_grid_barrier: bool,
    /// Group size that it requires; 0 where it leaves it open.
    pub(crate) required_group: [u32; 3],
    /// Estimated picoseconds of a group; 0 before the first was measured.
    cost: AtomicU64,
}

/// How the items of a group are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A loop over the items calls what one item does.
    Loop,
    /// The group runs loops over its items, one after the other.
    Regions,
    /// Each item has a stack of its own.
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

    /// Returns the estimated picoseconds of a group; 0 before the first was measured.
    #[inline]
    pub(crate) fn cost(&self) -> u64 {
        self.cost.load(Ordering::Relaxed)
    }

    /// Takes a measured cost of a group, in picoseconds, into the estimate.
    #[inline]
    pub(crate) fn add_measured_cost(&self, measured: u64) {
        let cost = match self.cost() {
            0 => measured,
            known => known / 4 * 3 + measured / 4,
        };
        self.cost.store(cost.max(1), Ordering::Relaxed);
    }
}
