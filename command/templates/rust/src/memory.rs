//! Device memory. Here it is memory of the host, so that a device address is a pointer.

use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The live allocations of a device.
pub(crate) struct Memory {
    device: u32,
    bytes: u64,
    live: Mutex<HashMap<(MemoryKind, u64), Allocation>>,
}

/// An allocation. Your driver: its drop calls the driver's function instead.
struct Allocation {
    address: u64,
    layout: Layout,
}

impl Memory {
    /// Creates the memory of a device, with this size.
    pub(crate) fn new(device: u32, bytes: u64) -> Memory {
        Memory {
            device,
            bytes,
            live: Mutex::default(),
        }
    }

    /// Allocates. Your driver: one call for each kind of memory, and `Unsupported` for a kind that
    /// it lacks (P-32). The host caches freed memory, so the call need not be quick.
    pub(crate) fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        let no_room = || {
            let message = format!(
                "{bytes} bytes aligned to {alignment}, but acme:{} has {} bytes",
                self.device, self.bytes
            );
            Error::new(ErrorCode::OutOfResources, message)
        };
        if bytes.max(alignment) > self.bytes {
            return Err(no_room());
        }
        let layout = Layout::from_size_align(bytes as usize, alignment as usize);
        let layout = layout.map_err(|_| no_room())?;
        // SAFETY: the host passes sizes of at least 1 byte (H-5).
        let address = unsafe { alloc(layout) } as u64;
        if address == 0 {
            return Err(no_room());
        }
        self.live()
            .insert((kind, address), Allocation { address, layout });
        Ok(address)
    }

    /// Frees. Your driver: its call may crash for an address that it does not know. The map of live
    /// allocations makes that an error (P-35).
    pub(crate) fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        self.live()
            .remove(&(kind, address))
            .map(drop)
            .ok_or_else(|| {
                let message = format!(
                    "{address:#x} is no live allocation of kind {kind:?} on acme:{}",
                    self.device
                );
                Error::new(ErrorCode::InvalidArgument, message)
            })
    }

    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<(MemoryKind, u64), Allocation>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and is freed once.
        unsafe { dealloc(self.address as *mut u8, self.layout) };
    }
}
