//! What instrumented relocatable objects want of LLVM's profile runtime. Longshore reads the counters
//! itself, so the runtime is never linked in. Values are not recorded.

/// The address of a name of the runtime, if it is one that an object may refer to.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    let address = match name {
        "__llvm_profile_runtime" => (&raw const RUNTIME).cast::<()>(),
        "__llvm_profile_instrument_target" | "__llvm_profile_instrument_memop" => {
            record_nothing as *const ()
        }
        _ => return None,
    };
    Some(address.expose_provenance() as u64)
}

/// That it is there is all that matters.
static RUNTIME: i32 = 0;

/// `void f(uint64_t value, void *record, uint32_t site)`
extern "C" fn record_nothing(_value: u64, _record: *mut (), _site: u32) {}
