//! TLS descriptors: pairs [resolver, argument] through which position-independent code finds
//! thread-local variables. The code calls the resolver with the address of the descriptor, and gets
//! the variable's offset from the thread pointer.
//!
//! The call has its own convention, so that the surrounding code can keep values in registers. The
//! address is passed in `rax` (x86-64) or `x0` (AArch64), and the offset is returned there. All
//! other registers are preserved except the condition flags, and on AArch64 the link register and
//! SVE's extension of the 128-bit vector registers.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

use crate::thread_pointer;
use crate::tls::tls_get_address;

/// Returns the address of the resolver for variables at a fixed offset from the thread pointer. The
/// argument is that offset.
pub fn static_resolver() -> u64 {
    arch::resolve_static as *const () as u64
}

/// Returns the address of the resolver for all other variables. The argument is the address of a
/// pair [handle, offset], as [`tls_get_address_function`](super::tls::tls_get_address_function)
/// takes it.
pub fn dynamic_resolver() -> u64 {
    arch::dynamic_resolver()
}

/// # Safety
///
/// As for [`tls_get_address`].
unsafe extern "C" fn offset_from_thread_pointer(pair: *const [u64; 2]) -> u64 {
    // SAFETY: guaranteed by the caller.
    let address = unsafe { tls_get_address(pair) } as u64;
    address.wrapping_sub(thread_pointer())
}

#[cfg(test)]
mod tests {
    use super::super::TlsModule;
    use super::arch::tests::dynamic_resolvers;
    use super::*;
    use crate::registers::call_keeping;

    /// Calls a resolver, and checks that it preserves all registers.
    fn resolve(resolver: u64, legacy: bool, argument: u64) -> u64 {
        // SAFETY: the call is one that code compiled for descriptors makes.
        unsafe { call_keeping(&[resolver, argument], legacy, &[]) }
    }

    #[test]
    fn the_static_resolver_returns_its_argument_and_preserves_the_registers() {
        assert_eq!(resolve(static_resolver(), false, 42), 42);
        assert_eq!(resolve(static_resolver(), false, -8i64 as u64), -8i64 as u64);
    }

    #[test]
    fn a_dynamic_resolver_finds_the_threads_block_and_preserves_the_registers() {
        let check = |(resolver, legacy), size: usize| {
            let template = vec![3u8; size];
            let module =
                TlsModule::new(template.as_ptr() as u64, size as u64, size as u64, 64).unwrap();
            let pair = [module.handle(), 24];
            for _ in 0..2 {
                let offset = resolve(resolver, legacy, pair.as_ptr() as u64);
                // SAFETY: the module is alive.
                let expected = unsafe { tls_get_address(&pair) } as u64;
                assert_eq!(thread_pointer().wrapping_add(offset), expected);
                // SAFETY: the address is in the calling thread's block.
                assert_eq!(unsafe { *(expected as *const u8) }, 3);
            }
        };
        for resolver in dynamic_resolvers() {
            // Sizes for which the C library copies with different registers.
            [32, 64, 200, 500, 1 << 16].into_iter().for_each(|size| check(resolver, size));
        }
    }
}
