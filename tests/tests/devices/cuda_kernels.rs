//! The kernels on CUDA: as PTX, which the driver compiles, and as machine code.

use crate::gpu_kernels;
use longshore_tests::doubled::CUDA;
use longshore_tests::suites::Suite;
use longshore_tests::{cuda, kernels};

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { CUDA.take_driver() },
    ..Suite::new("cuda_kernels", || gpu_kernels::trials(&CUDA, images))
};

fn images(arch: &str) -> Vec<(&'static str, Vec<u8>)> {
    let Some(ptx) = cuda::compiled(&kernels::source(), arch, &["-O3"]) else { return Vec::new() };
    let cubin = cuda::assembled(&ptx, arch, &["-O3"]).map(|cubin| ("cubin", cubin));
    [("PTX", ptx)].into_iter().chain(cubin).collect()
}
