//! A device of a backend with the kernels of an image.

use longshore::Result;
use longshore_conformance::DeviceName;
use longshore_tests::doubled::Doubled;
use longshore_tests::kernels::Kernels;

pub(crate) type Rig = longshore_tests::kernels::Rig<Kernels>;

/// Opens a device and loads the kernels of an image.
pub(crate) fn open(of: &Doubled, name: &DeviceName, image: &[u8]) -> Result<Rig> {
    let device = of.open(name)?;
    let kernels = Kernels::new(&device, image)?;
    Ok(Rig::new(device, kernels))
}
