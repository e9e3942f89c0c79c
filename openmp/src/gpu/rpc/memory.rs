//! Memory that device code allocates.

use longshore::{Allocation, Device, MemoryKind};
use parking_lot::Mutex;
use std::collections::HashMap;

const ALIGNMENT: u64 = 16;

/// A source of memory for `malloc` in device code.
pub(super) trait DeviceMemory: Send + Sync {
    /// Returns the address of new memory; 0 without memory.
    fn allocate(&self, bytes: u64) -> u64;

    /// Frees memory; ignores an address that is not allocated.
    fn free(&self, address: u64);
}

/// Memory of a device. Memory that device code does not free ends with the image.
pub(super) struct Heap {
    device: Device,
    live: Mutex<HashMap<u64, Allocation>>,
}

impl Heap {
    /// Creates a source without live allocations.
    pub(super) fn new(device: Device) -> Heap {
        Heap { device, live: Mutex::default() }
    }
}

impl DeviceMemory for Heap {
    fn allocate(&self, bytes: u64) -> u64 {
        match self.device.allocate(MemoryKind::Device, bytes.max(1), ALIGNMENT) {
            Ok(allocation) => {
                let address = allocation.pointer().address();
                self.live.lock().insert(address, allocation);
                address
            }
            Err(error) => {
                log::debug!("malloc of {bytes} bytes in a kernel: {error}");
                0
            }
        }
    }

    fn free(&self, address: u64) {
        let freed = self.live.lock().remove(&address);
        if freed.is_none() && address != 0 {
            log::warn!("free in a kernel: {address:#x} is not allocated");
        }
    }
}
