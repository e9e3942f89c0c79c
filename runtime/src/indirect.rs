//! Indirect functions (IFUNC): the function that is called is chosen by one that is run once.

use std::ffi::c_char;

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

#[cfg(not(target_arch = "aarch64"))]
unsafe fn call_resolver(resolver: u64) -> u64 {
    // SAFETY: promised by the caller: a function without arguments that returns an address.
    let resolver: extern "C" fn() -> u64 = unsafe { std::mem::transmute(resolver as usize) };
    resolver()
}

/// What the C library passes to resolvers: the processor's abilities, and a structure with more of them.
#[cfg(target_arch = "aarch64")]
unsafe fn call_resolver(resolver: u64) -> u64 {
    const IFUNC_ARG_HWCAP: u64 = 1 << 62;
    // SAFETY: these values exist on every system; 0 is returned for those that do not.
    let [hwcap, hwcap2] =
        [libc::AT_HWCAP, libc::AT_HWCAP2].map(|kind| unsafe { libc::getauxval(kind) });
    let argument = [3 * size_of::<u64>() as u64, hwcap, hwcap2];
    // SAFETY: promised by the caller: a function of these two arguments that returns an address.
    let resolver: extern "C" fn(u64, *const [u64; 3]) -> u64 =
        unsafe { std::mem::transmute(resolver as usize) };
    resolver(hwcap | IFUNC_ARG_HWCAP, &argument)
}
