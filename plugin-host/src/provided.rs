//! Functions that this backend provides to images, by their names.

use crate::check;

mod ends;
mod half;
#[cfg(target_arch = "aarch64")]
mod outline_atomics;
mod profile_runtime;

pub(crate) use ends::address_of as end_address_of;

/// Returns whether this backend provides the name to a shared object that lacks it.
pub(crate) fn has(name: &str) -> bool {
    half::address_of(name)
        .or_else(|| ends::address_of(name))
        .or_else(|| check::address_of(name))
        .is_some()
}

/// Returns the address of the provided function for a name that a shared object lacks. `found` is
/// the address that the loader has found, or 0.
pub(crate) fn in_place_of(name: &str, found: u64) -> Option<u64> {
    match found {
        0 => half::address_of(name).or_else(|| check::address_of(name)),
        _ => ends::address_of(name),
    }
}

/// Returns the address of a function or variable that every relocatable object may use.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    let address = profile_runtime::address_of(name).or_else(|| half::address_of(name));
    let address = address.or_else(|| check::address_of(name));
    #[cfg(target_arch = "aarch64")]
    let address = address.or_else(|| outline_atomics::address_of(name));
    address
}
