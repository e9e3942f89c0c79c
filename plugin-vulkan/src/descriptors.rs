//! Descriptor sets that live as long as their batch.

use crate::logical::LogicalDevice;
use ash::vk;
use longshore_plugin_api::Result;

/// Number of sets of a descriptor pool, and of descriptors of each kind per set.
const POOL_SETS: u32 = 128;
const POOL_DESCRIPTORS: u32 = 4;

/// Descriptor pools of a batch.
#[derive(Default)]
pub(crate) struct Descriptors {
    pools: Vec<vk::DescriptorPool>,
    current: usize,
}

impl Descriptors {
    /// Creates a set for each layout; `count` is the total number of their descriptors.
    pub(crate) fn allocate(
        &mut self,
        device: &LogicalDevice,
        layouts: &[vk::DescriptorSetLayout],
        count: u32,
        sets: &mut Vec<vk::DescriptorSet>,
    ) -> Result<()> {
        loop {
            let is_new = self.current == self.pools.len();
            if is_new {
                self.pools.push(descriptor_pool(device, count)?);
            }
            let info = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(self.pools[self.current])
                .set_layouts(layouts);
            // SAFETY: pool and layouts are live, and the pool is the batch's own.
            match unsafe { device.raw.allocate_descriptor_sets(&info) } {
                Ok(made) => {
                    *sets = made;
                    return Ok(());
                }
                Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL)
                    if !is_new =>
                {
                    self.current += 1
                }
                Err(result) => return device.check("making descriptor sets", Err(result)),
            }
        }
    }

    /// # Safety
    /// No set is in use.
    pub(crate) unsafe fn reset(&mut self, device: &ash::Device) {
        for pool in &self.pools {
            // SAFETY: promised by the caller. The call cannot fail.
            let _ = unsafe {
                device.reset_descriptor_pool(*pool, vk::DescriptorPoolResetFlags::empty())
            };
        }
        self.current = 0;
    }

    /// # Safety
    /// No set is in use.
    pub(crate) unsafe fn destroy(&mut self, device: &ash::Device) {
        for pool in self.pools.drain(..) {
            // SAFETY: promised by the caller.
            unsafe { device.destroy_descriptor_pool(pool, None) };
        }
    }
}

fn descriptor_pool(device: &LogicalDevice, least: u32) -> Result<vk::DescriptorPool> {
    let count = (POOL_SETS * POOL_DESCRIPTORS).max(least);
    let sizes = [
        vk::DescriptorType::STORAGE_BUFFER,
        vk::DescriptorType::UNIFORM_BUFFER,
        vk::DescriptorType::STORAGE_BUFFER_DYNAMIC,
        vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC,
    ]
    .map(|kind| vk::DescriptorPoolSize { ty: kind, descriptor_count: count });
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(POOL_SETS).pool_sizes(&sizes);
    // SAFETY: the device is live.
    let pool = unsafe { device.raw.create_descriptor_pool(&info, None) };
    device.check("making a descriptor pool", pool)
}
