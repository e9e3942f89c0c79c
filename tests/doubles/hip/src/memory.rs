//! HIP's own behaviour for memory: an allocation of 0 bytes is valid.

use crate::code::INVALID_MEMCPY_DIRECTION;
use crate::current::context_of;
use longshore_double_gpu::driver::host_memory::{self, REGISTER_DEVICE_MAP};
use longshore_double_gpu::driver::{
    Code, DriverResult, Out, broken, machine, memory, ordered_memory, transfer,
};

/// Flags: portable, mapped, write-combined; uncached, by the user's NUMA policy; coherent,
/// non-coherent.
const HOST_FLAGS: u32 = 1 | 2 | 4 | 0x1000_0000 | 0x2000_0000 | COHERENT | NON_COHERENT;
const COHERENT: u32 = 0x4000_0000;
const NON_COHERENT: u32 = 0x8000_0000;
/// Flags: portable, mapped, coarse-grained.
const REGISTER_FLAGS: u32 = 1 | 2 | 8;

/// Kinds of copies.
const HOST_TO_HOST: u32 = 0;
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const DEFAULT: u32 = 4;

pub(crate) fn allocate(address: Out<u64>, bytes: usize) -> DriverResult {
    if bytes == 0 { address.put(0) } else { memory::allocate(address, bytes) }
}

pub(crate) fn allocate_from_pool(
    address: Out<u64>,
    bytes: usize,
    pool: usize,
    stream: usize,
) -> DriverResult {
    if bytes == 0 {
        return address.put(0);
    }
    // Many versions report success without memory when no memory is left.
    match ordered_memory::allocate(address, bytes, pool, stream) {
        Err(Code::OUT_OF_MEMORY) => address.put(0),
        allocated => allocated,
    }
}

pub(crate) fn allocate_host(address: Out<u64>, bytes: usize, flags: u32) -> DriverResult {
    if flags & COHERENT != 0 && flags & NON_COHERENT != 0 {
        let what = "host memory with the flags for coherent and non-coherent memory";
        return Err(broken(Code::INVALID_VALUE, what));
    }
    if bytes == 0 {
        return address.put(0);
    }
    host_memory::allocate(address, bytes, flags, HOST_FLAGS)
}

/// Registers memory, which devices reach with any flags. The runtime does not refuse registered
/// memory: it would register the memory again, and the second unregistration would end the first
/// registration.
pub(crate) fn register(address: usize, bytes: usize, flags: u32) -> DriverResult {
    if host_memory::is_known(address as u64)? {
        let what = "memory is registered twice";
        return Err(broken(Code::HOST_MEMORY_ALREADY_REGISTERED, what));
    }
    let mapped = flags | REGISTER_DEVICE_MAP;
    host_memory::register(address, bytes, mapped, REGISTER_FLAGS)
}

pub(crate) fn enable_peer(peer: i32, flags: u32) -> DriverResult {
    let machine = machine()?;
    machine.device(peer)?;
    if !machine.has_peers {
        return Err(Code::INVALID_DEVICE);
    }
    memory::enable_peer(&*context_of(peer)?, flags)
}

/// Copies in the direction of `kind`.
pub(crate) fn copy(to: u64, from: u64, bytes: usize, kind: u32, stream: usize) -> DriverResult {
    match kind {
        HOST_TO_DEVICE => transfer::to_device_async(to, from as usize, bytes, stream),
        DEVICE_TO_HOST => transfer::to_host_async(to as usize, from, bytes, stream),
        DEVICE_TO_DEVICE => transfer::within_device_async(to, from, bytes, stream),
        HOST_TO_HOST | DEFAULT => transfer::anywhere_async(to, from, bytes, stream),
        _ => Err(broken(INVALID_MEMCPY_DIRECTION, format!("unknown direction of a copy: {kind}"))),
    }
}

pub(crate) fn copy_between(
    to: u64,
    to_device: i32,
    from: u64,
    from_device: i32,
    bytes: usize,
    stream: usize,
) -> DriverResult {
    let (to_context, from_context) = (context_of(to_device)?, context_of(from_device)?);
    transfer::between_contexts(to, &to_context, from, &from_context, bytes, stream)
}
