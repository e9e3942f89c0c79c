//! Occupancy: the number of groups that run at a time.

use super::function::{self, Function};
use super::{Code, DriverResult, Out, broken, machine};

/// A function that returns the dynamic shared memory in bytes for a group of `items` items.
pub type SharedBytesOf = unsafe extern "C" fn(items: i32) -> usize;

/// Returns the number of groups of a kernel that a multiprocessor runs at a time.
pub(crate) fn groups(function: &Function, items: u32, shared_bytes: u64) -> u32 {
    let (kernel, limits) = (&function.kernel, &function.limits);
    if u64::from(items) > function.most_items() {
        return 0;
    }
    let items = items.next_multiple_of(limits.sub_group);
    let shared = shared_bytes + kernel.static_shared_bytes;
    let by_items = limits.items_of_multiprocessor / items;
    let by_registers = limits.registers_of_multiprocessor / (items * kernel.registers.max(1));
    let total = u64::from(limits.shared_bytes_of_multiprocessor);
    let by_shared = total.checked_div(shared).unwrap_or(u64::MAX);
    let least = by_items.min(by_registers).min(limits.groups_of_multiprocessor);
    u64::from(least).min(by_shared) as u32
}

/// Stores the result of `groups` for a program.
pub fn active_groups(
    count: Out<i32>,
    function: usize,
    items: i32,
    shared_bytes: usize,
    flags: u32,
) -> DriverResult {
    let function = function::current_function(function)?;
    let items = u32::try_from(items).ok().filter(|items| *items > 0);
    let Some(items) = items.filter(|_| flags <= 1) else {
        return Err(broken(Code::INVALID_VALUE, "occupancy for an invalid size of groups"));
    };
    count.put(groups(&function, items, shared_bytes as u64) as i32)
}

/// Stores the group size with which most items run at a time.
pub fn best_size(
    grid: Out<i32>,
    best: Out<i32>,
    function: usize,
    shared_of: Option<SharedBytesOf>,
    shared_bytes: usize,
    limit: i32,
) -> DriverResult {
    let function = function::current_function(function)?;
    let most = match limit {
        0 => function.most_items() as u32,
        limit => (function.most_items() as u32).min(limit.unsigned_abs()),
    };
    let sub_group = function.limits.sub_group;
    let mut found = (0, 0, 0);
    for items in (1..=most).rev().filter(|items| items % sub_group == 0 || *items == most) {
        let shared = match shared_of {
            // SAFETY: the program passed a function that may be called with sizes of groups.
            Some(shared_of) => unsafe { shared_of(items as i32) },
            None => shared_bytes,
        };
        let count = groups(&function, items, shared as u64);
        if count * items > found.0 {
            found = (count * items, items, count);
        }
    }
    let (_, items, count) = found;
    grid.put((count * machine()?.multiprocessors) as i32)?;
    best.put(items as i32)
}
