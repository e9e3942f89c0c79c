//! Prefetches to locations.

use longshore_double_gpu::driver::location::{LOCATION_DEVICE, Location};
use longshore_double_gpu::driver::{Code, DriverResult, broken, memory};

const LOCATION_HOST: u32 = 2;
const LOCATION_HOST_NUMA: u32 = 3;
const LOCATION_HOST_NUMA_CURRENT: u32 = 4;

/// Implements `cuMemPrefetchAsync_v2`.
pub(crate) fn prefetch_to(
    address: u64,
    bytes: usize,
    location: Location,
    flags: u32,
    stream: usize,
) -> DriverResult {
    let device = match location.kind {
        LOCATION_DEVICE => location.id,
        LOCATION_HOST | LOCATION_HOST_NUMA | LOCATION_HOST_NUMA_CURRENT => -1,
        kind => {
            return Err(broken(Code::INVALID_VALUE, format!("unknown kind of location: {kind}")));
        }
    };
    if flags != 0 {
        return Err(broken(
            Code::INVALID_VALUE,
            format!("invalid flags of a prefetch: {flags:#x}"),
        ));
    }
    memory::prefetch(address, bytes, device, stream)
}
