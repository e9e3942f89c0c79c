//! Raw allocations and device pointers.

use super::block::Block;
use crate::device::Device;
use longshore_plugin_api::MemoryKind;
use std::sync::Arc;

/// An address on a device. Copying, comparing and arithmetic are safe; what is done with it is
/// the caller's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DevicePointer(pub u64);

impl DevicePointer {
    /// Returns the address as a number.
    pub fn address(self) -> u64 {
        self.0
    }

    /// Returns the pointer `bytes` further on; wraps around like the device's own arithmetic.
    #[must_use]
    pub fn offset(self, bytes: i64) -> DevicePointer {
        DevicePointer(self.0.wrapping_add_signed(bytes))
    }
}

/// Untyped memory of a device, freed on drop. Freeing does not wait for work: the memory is handed
/// out again, or given back to the driver, when all work is done that was queued before, on any
/// queue that can reach it. LLVM: `olMemAlloc`, `olMemFree`.
///
/// ```
/// use longshore::MemoryKind;
///
/// # let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// # let device = host.default_device()?;
/// // 1000 bytes at a multiple of 64 bytes.
/// let memory = device.allocate(MemoryKind::Device, 1000, 64)?;
/// let inside = memory.pointer().offset(500);
/// assert_eq!(host.allocation_at(inside)?.bytes, 1000);
/// assert!(memory.pointer().address().is_multiple_of(64));
/// # Ok::<(), longshore::Error>(())
/// ```
pub struct Allocation {
    block: Option<Arc<Block>>,
    device: Device,
}

impl Allocation {
    pub(crate) fn new(block: Arc<Block>, device: Device) -> Allocation {
        Allocation { block: Some(block), device }
    }

    /// First address.
    pub fn pointer(&self) -> DevicePointer {
        DevicePointer(self.block().address)
    }

    /// Size in bytes, as it was asked for.
    pub fn bytes(&self) -> u64 {
        self.block().current_use().bytes
    }

    /// Where it lives.
    pub fn kind(&self) -> MemoryKind {
        self.block().kind
    }

    /// Returns the device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Gives it up without freeing it: [`Host::free`](crate::Host::free) does that later, by the
    /// address.
    pub fn into_raw(mut self) -> DevicePointer {
        let pointer = self.pointer();
        self.block = None;
        pointer
    }

    fn block(&self) -> &Block {
        self.block.as_deref().expect("only `into_raw` and `drop` take the block")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let released = self.device.release(block).map(drop);
            released.unwrap_or_else(|error| log::error!("{error}"));
        }
    }
}
