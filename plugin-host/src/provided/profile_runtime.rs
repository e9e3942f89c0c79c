//! Symbols of LLVM's profile runtime for instrumented relocatable objects. Longshore reads the
//! counters itself, so the runtime is never linked in. Values are not recorded.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the address of a name of the runtime, if objects may refer to it.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    let address = match name {
        "__llvm_profile_runtime" => (&raw const RUNTIME).cast::<()>(),
        "__llvm_profile_instrument_target" | "__llvm_profile_instrument_memop" => {
            record_nothing as *const ()
        }
        "__llvm_profile_set_timestamp" => set_timestamp as *const (),
        _ => return None,
    };
    Some(address.expose_provenance() as u64)
}

/// A variable that only needs to exist.
static RUNTIME: i32 = 0;

/// Records no value. C type: `void f(uint64_t value, void *record, uint32_t site)`.
extern "C" fn record_nothing(_value: u64, _record: *mut (), _site: u32) {}

/// Stores the rank of a function's first run among all functions into its counter. Instrumented
/// code calls it from any thread until the counter is set; zero and the counter's start value mean
/// unset.
///
/// # Safety
/// `counter` is a counter of the image that other code changes atomically or not at all.
unsafe extern "C" fn set_timestamp(counter: *mut u64) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // SAFETY: promised by the caller; counters are aligned.
    let counter = unsafe { AtomicU64::from_ptr(counter) };
    let seen = counter.load(Ordering::Relaxed);
    if seen == 0 || seen == u64::MAX {
        let now = NEXT.fetch_add(1, Ordering::Relaxed);
        let _ = counter.compare_exchange(seen, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}
