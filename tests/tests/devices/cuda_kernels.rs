//! The kernels on CUDA, as PTX, which the driver compiles, and as machine code.

use crate::gpu_kernels::{self, Form};
use longshore_tests::doubled::CUDA;
use longshore_tests::suites::Suite;
use longshore_tests::{cuda, kernels};

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { CUDA.take_driver() },
    ..Suite::new("cuda_kernels", || gpu_kernels::trials(&CUDA, FORMS))
};

const FORMS: &[Form] = &[
    Form { name: "PTX", make: ptx },
    Form { name: "cubin", make: |arch| cubin(&ptx(arch)?, arch) },
];

fn ptx(arch: &str) -> Option<Vec<u8>> {
    cuda::compiled(&kernels::source(), arch, &["-O3"])
}

fn cubin(ptx: &[u8], arch: &str) -> Option<Vec<u8>> {
    cuda::assembled(ptx, arch, &["-O3"])
}
