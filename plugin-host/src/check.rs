//! Checks of kernels: accesses outside of memory, of unwritten memory, and by several items.
//!
//! The code of a checked image calls the functions of `entry.rs` before each access, see
//! `jit/checks`. The parts:
//!
//! - [`Checker`]: the memory of a platform's devices (`memory.rs`), as regions with a shadow
//!   (`region.rs`): bits for written bytes, and records of the last accesses;
//! - [`Session`](session::Session): one checked launch. Launches run one after the other, and their
//!   groups and items too, so that the current item is always known;
//! - `races.rs`, `atomics.rs` and `order.rs`: accesses by several items, and the barriers and
//!   atomic operations that order them. The result depends on identities of items, not on times;
//! - `ranges.rs`: accesses of all items of a loop at once, their records (`found.rs`, `seen.rs`),
//!   and ranges that need no second check (`kept.rs`);
//! - `report.rs`: the found errors.

mod access;
mod atomics;
mod clocks;
mod entry;
mod found;
mod group;
mod heap;
mod images;
mod kept;
mod kinds;
mod lookup;
mod memory;
mod order;
mod races;
mod ranges;
mod region;
mod report;
mod seen;
mod session;
mod site;
mod state;
pub(crate) mod steps;

pub(crate) use group::Mode;
pub(crate) use kinds::Kinds;
pub(crate) use memory::{Checker, copied, written};
pub(crate) use session::{RunningSession, Session};

/// Returns the address of a function for checked images.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    entry::address_of(name.strip_prefix("__longshore_check_")?)
}
