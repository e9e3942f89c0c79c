//! Access to the memory of peer contexts.

use longshore_double_gpu::driver::context::Context;
use longshore_double_gpu::driver::{DriverResult, memory, object, transfer};

pub(crate) fn enable(peer: usize, flags: u32) -> DriverResult {
    memory::enable_peer(&*object::get::<Context>(peer)?, flags)
}

pub(crate) fn disable(peer: usize) -> DriverResult {
    memory::disable_peer(&*object::get::<Context>(peer)?)
}

pub(crate) fn copy(
    to: u64,
    to_context: usize,
    from: u64,
    from_context: usize,
    bytes: usize,
    stream: usize,
) -> DriverResult {
    let (to_context, from_context) =
        (object::get::<Context>(to_context)?, object::get::<Context>(from_context)?);
    transfer::between_contexts(to, &to_context, from, &from_context, bytes, stream)
}
