//! Functions that this backend itself gives to images, by their names.

mod ends;
mod half;
#[cfg(target_arch = "aarch64")]
mod outline_atomics;
mod profile_runtime;

pub(crate) use ends::address_of as end_address_of;

/// Whether a shared object that lacks the name is given a function of this backend.
pub(crate) fn has(name: &str) -> bool {
    half::address_of(name).or_else(|| ends::address_of(name)).is_some()
}

/// The function that a shared object is given for a name that it lacks. `found` is the address of the one that the loader has
/// found, and 0 if it has found none.
pub(crate) fn in_place_of(name: &str, found: u64) -> Option<u64> {
    match found {
        0 => half::address_of(name),
        _ => ends::address_of(name),
    }
}

/// The address of a function or variable that every relocatable object can have.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    let address = profile_runtime::address_of(name).or_else(|| half::address_of(name));
    #[cfg(target_arch = "aarch64")]
    let address = address.or_else(|| outline_atomics::address_of(name));
    address
}
