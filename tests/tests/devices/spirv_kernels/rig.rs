//! A Vulkan device with the kernels of an image.

use longshore::Result;
use longshore_conformance::DeviceName;
use longshore_tests::kernels::Kernels;
use longshore_tests::vulkan;

pub(crate) type Rig = longshore_tests::kernels::Rig<Kernels>;

/// Opens a device and loads the kernels of an image.
pub(crate) fn open(name: &DeviceName, image: &[u8]) -> Result<Rig> {
    let device = vulkan::open(name, vulkan::environment())?;
    let kernels = Kernels::new(&device, image)?;
    Ok(Rig::new(device, kernels))
}
