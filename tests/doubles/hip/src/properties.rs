//! The structure of a device's properties, whose layout HIP 6 changed.

use crate::current::target_of;
use longshore_double_gpu::driver::device::memory_of;
use longshore_double_gpu::driver::{DriverResult, Out, driver, machine};

/// Offset of the name in both layouts, and its maximum length in bytes.
const NAME: usize = 0;
const TEXT_BYTES: usize = 256;

/// A layout: the offsets of some properties in bytes.
struct Layout {
    memory_bytes: usize,
    shared_bytes: usize,
    wavefront: usize,
    multiprocessors: usize,
    target: usize,
}

/// Layout up to HIP 5: `hipDeviceProp_tR0000`.
const FIRST: Layout = Layout {
    memory_bytes: 256,
    shared_bytes: 264,
    wavefront: 276,
    multiprocessors: 336,
    target: 396,
};
pub(crate) const FIRST_BYTES: usize = 792;

/// Layout since HIP 6: `hipDeviceProp_tR0600`.
const SECOND: Layout = Layout {
    memory_bytes: 288,
    shared_bytes: 296,
    wavefront: 308,
    multiprocessors: 388,
    target: 1160,
};
pub(crate) const SECOND_BYTES: usize = 1472;

/// Implements `hipGetDeviceProperties` of HIP 5.
pub(crate) fn first(properties: Out<[u8; FIRST_BYTES]>, device: i32) -> DriverResult {
    properties.put(filled(&FIRST, device)?)
}

/// Implements `hipGetDevicePropertiesR0600`.
pub(crate) fn second(properties: Out<[u8; SECOND_BYTES]>, device: i32) -> DriverResult {
    properties.put(filled(&SECOND, device)?)
}

/// Returns a structure of properties. Properties outside the layouts above are 0.
fn filled<const BYTES: usize>(layout: &Layout, device: i32) -> DriverResult<[u8; BYTES]> {
    let machine = machine()?;
    let limits = machine.device(device)?.limits;
    let target = target_of(&driver().settings, device as usize).to_string();
    let mut bytes = [0; BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    for (at, text) in [(NAME, driver().device_name()), (layout.target, &target)] {
        put(at, &text.as_bytes()[..text.len().min(TEXT_BYTES - 1)]);
    }
    put(layout.memory_bytes, &memory_of(device)?.to_le_bytes());
    put(layout.shared_bytes, &u64::from(limits.shared_bytes).to_le_bytes());
    put(layout.wavefront, &limits.sub_group.to_le_bytes());
    put(layout.multiprocessors, &machine.multiprocessors.to_le_bytes());
    Ok(bytes)
}
