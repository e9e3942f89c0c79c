//! An open device.

#[cfg(test)]
pub(crate) mod faults;
#[cfg(test)]
mod tests;

use crate::device_core::{DeviceCore, DeviceSettings};
use crate::physical::PhysicalDevice;
use crate::{VulkanBackend, VulkanEvent, VulkanKernel, VulkanModule, VulkanQueue, module};
use longshore_plugin_api::{
    Acceptance, Device, ImageBytes, ImageEntry, Loading, MemoryKind, Result, Span,
};
use std::sync::Arc;

/// A Vulkan device. Each opening creates a new logical device of the same physical device.
///
/// LLVM: `ol_device_handle_t`.
pub struct VulkanDevice {
    core: Arc<DeviceCore>,
}

impl VulkanDevice {
    /// Creates a logical device with every feature that kernels may use.
    pub(crate) fn open(
        physical: &Arc<PhysicalDevice>,
        settings: &DeviceSettings,
    ) -> Result<VulkanDevice> {
        Ok(VulkanDevice { core: Arc::new(DeviceCore::open(physical, settings)?) })
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }
}

impl Device<VulkanBackend> for VulkanDevice {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(module::acceptance(&self.core, image))
    }

    /// Allocates memory. Each allocation of device memory is a separate buffer. Host and managed
    /// memory have their host addresses.
    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        self.core.refuse_if_lost()?;
        self.core.memory.allocate(kind, bytes, alignment)
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        self.core.memory.free(kind, address)
    }

    fn load(&self, image: ImageBytes, _: Loading) -> Result<VulkanModule> {
        self.core.refuse_if_lost()?;
        VulkanModule::load(&self.core, image.get())
    }

    fn create_queue(&self) -> Result<VulkanQueue> {
        self.core.refuse_if_lost()?;
        VulkanQueue::new(&self.core)
    }

    /// Creates an event. With timing, `Unsupported` if the device's queues have no timestamps.
    fn create_event(&self, timing: bool) -> Result<VulkanEvent> {
        self.core.refuse_if_lost()?;
        VulkanEvent::new(&self.core, timing)
    }

    /// Waits for the remaining work of dropped queues, then writes the pipeline cache. With the
    /// setting `VALIDATION=strict`, `BackendFailure` if the validation layer reported anything.
    fn close(self) -> Result<()> {
        let core = self.core;
        core.await_workers();
        let lost = core.refuse_if_lost();
        // SAFETY: no thread submits any more, because queues are dropped and workers have ended.
        let idle = unsafe { core.raw.device_wait_idle() };
        let idle = core.check("waiting for the device", idle).and(lost);
        core.keep_cache();
        let instance = Arc::clone(&core.physical.instance);
        drop(core);
        idle.and(instance.complaint())
    }

    /// Imports the pages of the range by VK_EXT_external_memory_host. `Unsupported` without the
    /// extension.
    fn pin(&self, range: Span) -> Result<u64> {
        self.core.refuse_if_lost()?;
        self.core.memory.pin(range)
    }

    fn unpin(&self, address: u64) -> Result<()> {
        self.core.memory.unpin(address)
    }

    /// Imports host memory by VK_EXT_external_memory_host. `Unsupported` without the extension.
    fn import_memory(&self, kind: MemoryKind, memory: Span) -> Result<()> {
        self.core.refuse_if_lost()?;
        self.core.memory.import_memory(kind, memory)
    }

    fn set_logical_size(&self, address: u64, bytes: u64) -> Result<()> {
        self.core.memory.set_logical_size(address, bytes)
    }

    /// Returns the kernel's fixed group size, else 256 items or the device's limit, in whole
    /// sub-groups.
    fn optimal_group_items(&self, kernel: &VulkanKernel, dynamic_shared_bytes: u64) -> Result<u32> {
        kernel.optimal_group_items(dynamic_shared_bytes)
    }

    /// Returns a score for SPIR-V or WGSL that [`Device::accepts`] accepts, in an entry for Vulkan
    /// or any target.
    fn score(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        const SUITABLE: u32 = 100;
        let is_known = |text: &str, known: &[&str]| {
            text.is_empty() || known.iter().any(|start| text.starts_with(start))
        };
        let for_us = is_known(entry.triple, &["spirv", "wgsl"])
            && is_known(entry.arch, &["vulkan", "spirv", "generic"]);
        let suits = for_us && module::acceptance(&self.core, entry.bytes).is_accepted();
        Ok(if suits { SUITABLE } else { 0 })
    }
}
