//! Indirect functions (IFUNC): a resolver, run once, chooses the called function.

use std::ffi::c_char;

use crate::call_at_bottom;

/// Returns the argument of the action that resolves an indirect function: the slot for the address,
/// and the resolver that returns it.
pub fn argument(slot: u64, resolver: u64) -> Vec<u8> {
    [slot, resolver].map(u64::to_le_bytes).as_flattened().to_vec()
}

/// Resolves an indirect function: an `ActionFunction` that calls the resolver and stores the
/// returned address into a slot.
///
/// # Safety
/// The argument must be made by [`argument`]. The resolver must be a function that may be called,
/// and the slot a writable word.
pub(crate) unsafe extern "C" fn resolve(argument: *const u8, _size: usize) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    let [slot, resolver] = unsafe { argument.cast::<[u64; 2]>().read_unaligned() };
    // SAFETY: the resolver is a function of linked code, which is executable by now. The slot is a
    // word of its memory that stays writable, and no other code writes it.
    unsafe { (slot as *mut u64).write(call_resolver(resolver)) };
    std::ptr::null_mut()
}

/// Calls a resolver and returns its result, an address.
///
/// # Safety
/// The address must be that of a resolver that may be called, and whose code is executable by now.
pub unsafe fn call_resolver(resolver: u64) -> u64 {
    with_abilities(|arguments| {
        // SAFETY: guaranteed by the caller.
        unsafe { call_at_bottom(resolver, arguments) }
    })
}

/// Calls `call` with the arguments that the C library passes to resolvers: none on this
/// architecture.
#[cfg(not(target_arch = "aarch64"))]
pub fn with_abilities<T>(call: impl FnOnce([u64; 3]) -> T) -> T {
    call([0; 3])
}

/// Calls `call` with the arguments that the C library passes to resolvers: the processor's
/// capabilities, and a structure with more of them.
#[cfg(target_arch = "aarch64")]
pub fn with_abilities<T>(call: impl FnOnce([u64; 3]) -> T) -> T {
    const IFUNC_ARG_HWCAP: u64 = 1 << 62;
    // SAFETY: the call takes any number, and returns 0 for an unknown value.
    let [hwcap, hwcap2] =
        [libc::AT_HWCAP, libc::AT_HWCAP2].map(|kind| unsafe { libc::getauxval(kind) });
    let argument = [3 * size_of::<u64>() as u64, hwcap, hwcap2];
    call([hwcap | IFUNC_ARG_HWCAP, &raw const argument as u64, 0])
}
