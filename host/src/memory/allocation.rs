//! Raw allocations and device pointers.

use super::block::Block;
use crate::device::Device;
use longshore_plugin_api::MemoryKind;
use std::sync::Arc;

/// An address on a device. Copying, comparing and arithmetic are safe. The caller of an `unsafe`
/// method vouches for accesses through the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DevicePointer(pub u64);

impl DevicePointer {
    /// Returns the address as a number.
    pub fn address(self) -> u64 {
        self.0
    }

    /// Returns the pointer moved by `bytes` bytes, wrapping around as the device's own arithmetic
    /// does.
    #[must_use]
    pub fn offset(self, bytes: i64) -> DevicePointer {
        DevicePointer(self.0.wrapping_add_signed(bytes))
    }
}

/// Untyped memory of a device, freed on drop. Freeing does not wait for work. The memory is reused,
/// or returned to the driver, only after all work is done that was queued before on any queue that
/// can access the memory. Any thread may call the methods. LLVM: `olMemAlloc`, `olMemFree`.
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

    /// Returns the first address.
    pub fn pointer(&self) -> DevicePointer {
        DevicePointer(self.block().address)
    }

    /// Returns the requested size in bytes.
    pub fn bytes(&self) -> u64 {
        self.block().current_use().bytes
    }

    /// Returns the kind of the memory: device, host or managed.
    pub fn kind(&self) -> MemoryKind {
        self.block().kind
    }

    /// Returns the device that the allocation belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Releases the memory from this handle without freeing it, and returns its first address.
    /// [`Host::free`](crate::Host::free) frees the memory by that address.
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
