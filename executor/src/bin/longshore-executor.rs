//! The executor's program.

use longshore_orc_rt::{set_static_tls, static_tls_reserve};

/// Bytes reserved for thread-local variables of code that needs them at a fixed offset from the
/// thread pointer.
const STATIC_TLS_BYTES: usize = 16 << 10;

fn main() {
    // Without a reserve, such code is refused when it is linked.
    if let Ok(reserve) = static_tls_reserve!(STATIC_TLS_BYTES) {
        set_static_tls(reserve);
    }
    longshore_executor::target::main();
}
