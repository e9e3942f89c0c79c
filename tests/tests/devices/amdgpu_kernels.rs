//! The kernels on AMD's GPUs.

use crate::gpu_kernels;
use longshore_tests::doubled::AMDGPU;
use longshore_tests::suites::Suite;
use longshore_tests::{amdgpu, kernels};

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { AMDGPU.take_driver() },
    ..Suite::new("amdgpu_kernels", || gpu_kernels::trials(&AMDGPU, images))
};

fn images(target: &str) -> Vec<(&'static str, Vec<u8>)> {
    let processor = target.split(':').next().expect("a part");
    let image = amdgpu::compiled(&kernels::source(), processor, &["-O3"]);
    image.map(|image| ("code object", image)).into_iter().collect()
}
