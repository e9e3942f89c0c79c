//! A device of CUDA with the kernels.

use longshore::Result;
use longshore_tests::DeviceName;
use longshore_tests::doubled::CUDA;
use longshore_tests::kernels::Kernels;

pub(crate) type Rig = longshore_tests::kernels::Rig<Kernels>;

/// Opens a device and loads the kernels of an image.
pub(crate) fn open(name: &DeviceName, image: &[u8]) -> Result<Rig> {
    let device = CUDA.open(name)?;
    let kernels = Kernels::new(&device, image)?;
    Ok(Rig::new(device, kernels))
}
