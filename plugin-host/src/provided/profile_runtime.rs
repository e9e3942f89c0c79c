//! What instrumented relocatable objects want of LLVM's profile runtime. Longshore reads the counters
//! itself, so the runtime is never linked in. Values are not recorded.

use std::sync::atomic::{AtomicU64, Ordering};

/// The address of a name of the runtime, if it is one that an object may refer to.
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

/// That it is there is all that matters.
static RUNTIME: i32 = 0;

/// `void f(uint64_t value, void *record, uint32_t site)`
extern "C" fn record_nothing(_value: u64, _record: *mut (), _site: u32) {}

/// Says in a counter when its function first ran: in which place among all functions. Called until
/// it was said, from any thread; a zero and what the counter starts with both say that it was not.
///
/// # Safety
/// `counter` is a counter of the image, which others count in with atomics or not at all.
unsafe extern "C" fn set_timestamp(counter: *mut u64) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // SAFETY: the caller's promise; counters are aligned.
    let counter = unsafe { AtomicU64::from_ptr(counter) };
    let seen = counter.load(Ordering::Relaxed);
    if seen == 0 || seen == u64::MAX {
        let now = NEXT.fetch_add(1, Ordering::Relaxed);
        let _ = counter.compare_exchange(seen, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}
