//! The occupancy of a device by a kernel.

use super::Kernel;
use crate::device::Device;
use longshore_plugin_api::{Device as _, Result};

impl Device {
    /// Returns the group size, in work-items, with which the kernel occupies most of the device.
    /// `dynamic_shared_bytes` is the dynamic shared memory per group. LLVM:
    /// `olCalculateOptimalOccupancy`.
    ///
    /// # Errors
    /// `Unsupported` if the plugin has no answer, `InvalidArgument` if the kernel requires a group
    /// that the device does not allow. `InvalidDevice` for a kernel of another device,
    /// `Uninitialized` if the kernel's program was unloaded.
    pub fn optimal_group_items(&self, kernel: &Kernel, dynamic_shared_bytes: u64) -> Result<u32> {
        self.check_same(kernel.program().device(), "the kernel")?;
        let _loaded = kernel.enter()?;
        let required = kernel.attributes().required_group;
        if !required.contains(&0) {
            kernel.check_group(required)?;
        }
        self.remote()?.optimal_group_items(kernel.remote(), dynamic_shared_bytes)
    }

    /// Returns the largest number of groups of `items` work-items, in x, y and z, with which the
    /// kernel can run cooperatively. `dynamic_shared_bytes` is the dynamic shared memory per group.
    /// LLVM: `olGetKernelMaxCooperativeGroupCount`.
    ///
    /// # Errors
    /// As for [`Device::optimal_group_items`]; `InvalidArgument` for a group that a launch refuses.
    pub fn max_cooperative_groups(
        &self,
        kernel: &Kernel,
        items: [u32; 3],
        dynamic_shared_bytes: u64,
    ) -> Result<u32> {
        self.check_same(kernel.program().device(), "the kernel")?;
        let _loaded = kernel.enter()?;
        kernel.check_group(items)?;
        self.remote()?.max_cooperative_groups(kernel.remote(), items, dynamic_shared_bytes)
    }
}
