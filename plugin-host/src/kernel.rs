//! Kernels as the engine runs them, and the limits of their groups.

pub(crate) mod abi;

use crate::lines::Lines;
use abi::{GroupEntry, HostEntry};
use longshore_plugin_api::ItemLoops;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most work-items of a group of any kernel, which is the usual limit of GPUs.
pub(crate) const MOST_GROUP_ITEMS: u32 = 1024;
/// Most bytes of declared shared memory of a group, and most bytes of dynamic shared memory.
pub(crate) const SHARED_BYTES: u64 = 64 << 10;
/// Number of items of a sub-group.
const SUBGROUP_ITEMS: u64 = 32;
/// Units of cost per nanosecond. Costs are in picoseconds: small groups take less than a
/// nanosecond.
pub(crate) const COST_PER_NS: u128 = 1000;

/// A kernel with its name in the image.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Code,
    /// The lines of the image, which lives while its kernels are launched.
    pub(crate) lines: Weak<Lines>,
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
    /// Loops over the items between barriers, which a pass over the kernel's code has made.
    ItemLoops(ItemLoops),
}

/// Most bytes on the stack for the items of a group in [`Mode::ItemLoops`].
const MOST_LOOP_BYTES: u64 = 192 << 10;

impl Mode {
    /// Returns the mode for a group of this size: loops that do not fit it give way to stacks.
    #[inline]
    pub(crate) fn for_group(self, items: [u32; 3]) -> Mode {
        match self {
            Mode::ItemLoops(loops) if !fits(loops, items) => Mode::Fibers,
            mode => mode,
        }
    }
}

fn fits(loops: ItemLoops, items: [u32; 3]) -> bool {
    let [x, y, z] = items.map(u64::from);
    let has_whole_subgroups = (y == 1 && z == 1) || x % SUBGROUP_ITEMS == 0;
    let bytes = u64::from(loops.item_bytes).saturating_mul(x.saturating_mul(y).saturating_mul(z));
    bytes <= MOST_LOOP_BYTES && (has_whole_subgroups || !loops.has_subgroups)
}

#[cfg(test)]
impl Kernel {
    pub(crate) fn host_form(name: &str, entry: HostEntry) -> Kernel {
        Kernel { name: name.to_owned(), code: Code::Host(entry), lines: Weak::new() }
    }

    pub(crate) fn work_group_form(name: &str, entry: GroupEntry) -> Kernel {
        let code = Code::Groups(GroupCode::new(entry, Mode::Loop, false, [0; 3]));
        Kernel { name: name.to_owned(), code, lines: Weak::new() }
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
