//! How many groups run at a time.

use crate::attributes::{
    self, ITEMS_OF_MULTIPROCESSOR, REGISTERS_OF_MULTIPROCESSOR, most_groups_of_multiprocessor,
};
use crate::code::{Answer, Code};
use crate::driver::{broken, machine};
use crate::function::{self, Function};
use crate::value::Out;

const SUB_GROUP: u32 = 32;

/// How much dynamic shared memory groups of a size need.
pub(crate) type SharedBytesOf = unsafe extern "C" fn(items: i32) -> usize;

/// How many groups of a kernel a multiprocessor runs at a time.
///
/// # Errors
/// `NOT_INITIALIZED`.
pub(crate) fn groups(function: &Function, items: u32, shared_bytes: u64) -> Answer<u32> {
    let machine = machine()?;
    if u64::from(items) > function.most_items() {
        return Ok(0);
    }
    let items = items.next_multiple_of(SUB_GROUP);
    let shared = shared_bytes + function.kernel.static_shared_bytes.unwrap_or(0);
    let by_items = ITEMS_OF_MULTIPROCESSOR / items;
    let by_registers = REGISTERS_OF_MULTIPROCESSOR / (items * function.registers().max(1));
    let total = u64::from(attributes::shared_bytes_of_multiprocessor(machine.capability));
    let by_shared = total.checked_div(shared).unwrap_or(u64::MAX);
    let least = by_items.min(by_registers).min(most_groups_of_multiprocessor(machine.capability));
    Ok(u64::from(least).min(by_shared) as u32)
}

pub(crate) fn active_groups(
    count: Out<i32>,
    function: usize,
    items: i32,
    shared_bytes: usize,
    flags: u32,
) -> Answer {
    let function = function::of_current(function)?;
    let items = u32::try_from(items).ok().filter(|items| *items > 0);
    let Some(items) = items.filter(|_| flags <= 1) else {
        return Err(broken(Code::INVALID_VALUE, "occupancy for groups that there cannot be"));
    };
    count.put(groups(&function, items, shared_bytes as u64)? as i32)
}

/// The size of groups with which most items run at a time.
pub(crate) fn best_size(
    grid: Out<i32>,
    best: Out<i32>,
    function: usize,
    shared_of: Option<SharedBytesOf>,
    shared_bytes: usize,
    limit: i32,
) -> Answer {
    let function = function::of_current(function)?;
    let most = match limit {
        0 => function.most_items() as u32,
        limit => (function.most_items() as u32).min(limit.unsigned_abs()),
    };
    let mut found = (0, 0, 0);
    for items in (1..=most).rev().filter(|items| items % SUB_GROUP == 0 || *items == most) {
        let shared = match shared_of {
            // SAFETY: the program passed a function that may be called with sizes of groups.
            Some(shared_of) => unsafe { shared_of(items as i32) },
            None => shared_bytes,
        };
        let count = groups(&function, items, shared as u64)?;
        if count * items > found.0 {
            found = (count * items, items, count);
        }
    }
    let (_, items, count) = found;
    grid.put((count * machine()?.multiprocessors) as i32)?;
    best.put(items as i32)
}
