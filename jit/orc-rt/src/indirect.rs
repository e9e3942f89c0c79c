//! Indirect functions (IFUNC): the function that is called is chosen by one that is run once.

use std::ffi::c_char;

use crate::call_at_bottom;

/// What the function that resolves indirect functions is called with: the slot for the address, and the resolver that returns it.
pub fn argument(slot: u64, resolver: u64) -> Vec<u8> {
    [slot, resolver].map(u64::to_le_bytes).as_flattened().to_vec()
}

/// An `ActionFunction` that calls an indirect function's resolver and puts the address that it returns into a slot.
///
/// # Safety
/// The argument must be one that [`argument`] makes. The resolver must be a function that may be called, and the slot a word that
/// may be written.
pub(crate) unsafe extern "C" fn resolve(argument: *const u8, _size: usize) -> *mut c_char {
    // SAFETY: promised by the caller.
    let [slot, resolver] = unsafe { argument.cast::<[u64; 2]>().read_unaligned() };
    // SAFETY: the resolver is a function of linked code, which is executable by now, and the slot is a word of its memory that stays
    // writable and that nobody else writes.
    unsafe { (slot as *mut u64).write(call_resolver(resolver)) };
    std::ptr::null_mut()
}

/// Calls a resolver and gives the address that it returns.
///
/// # Safety
/// The address must be that of a resolver of code that is executable by now, and that may be called.
pub unsafe fn call_resolver(resolver: u64) -> u64 {
    with_abilities(|arguments| {
        // SAFETY: promised by the caller.
        unsafe { call_at_bottom(resolver, arguments) }
    })
}

/// Arguments that the C library passes to resolvers: none.
#[cfg(not(target_arch = "aarch64"))]
pub fn with_abilities<T>(call: impl FnOnce([u64; 3]) -> T) -> T {
    call([0; 3])
}

/// What the C library passes to resolvers: the processor's abilities, and a structure with more of them.
#[cfg(target_arch = "aarch64")]
pub fn with_abilities<T>(call: impl FnOnce([u64; 3]) -> T) -> T {
    const IFUNC_ARG_HWCAP: u64 = 1 << 62;
    // SAFETY: these values exist on every system; 0 is returned for those that do not.
    let [hwcap, hwcap2] =
        [libc::AT_HWCAP, libc::AT_HWCAP2].map(|kind| unsafe { libc::getauxval(kind) });
    let argument = [3 * size_of::<u64>() as u64, hwcap, hwcap2];
    call([hwcap | IFUNC_ARG_HWCAP, &raw const argument as u64, 0])
}
