//! Test support: checks that code preserves the registers that its caller relies on.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

/// The general registers, then the vector state in the processor's format.
#[repr(C, align(64))]
#[derive(Clone)]
struct Registers {
    general: [u64; 32],
    vector: [u8; 4096],
}

impl Registers {
    const ZERO: Self = Self { general: [0; 32], vector: [0; 4096] };

    /// Returns registers with different values.
    fn pattern() -> Self {
        let mut registers = Self::ZERO;
        registers.general = std::array::from_fn(|index| 0x1111_2222_0000_0000 + index as u64);
        for (index, byte) in registers.vector.iter_mut().enumerate() {
            *byte = (index % 251) as u8 + 1;
        }
        registers
    }
}

/// Calls the code whose address is the first word of `descriptor`, with the descriptor's address in
/// `rax` or `x0`. Checks that all other registers are unchanged, except the general ones that
/// `changed` lists. With `legacy` it also ignores the vector state that `fxsave` does not save.
/// Returns `rax` or `x0`.
///
/// # Safety
/// The code must return, and take no other arguments.
pub(crate) unsafe fn call_keeping(descriptor: &[u64; 2], legacy: bool, changed: &[usize]) -> u64 {
    arch::call_keeping(descriptor, legacy, changed)
}

/// Changes all registers that a function may change.
pub(crate) fn change() {
    arch::change();
}
