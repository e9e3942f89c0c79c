//! The kernels on AMD's GPUs.

use crate::gpu_kernels::{self, Form};
use longshore_tests::doubled::AMDGPU;
use longshore_tests::suites::Suite;
use longshore_tests::{amdgpu, kernels};

pub(crate) const SUITE: Suite = Suite {
    // SAFETY: promised by the caller.
    prepare: || unsafe { AMDGPU.take_driver() },
    ..Suite::new("amdgpu_kernels", || gpu_kernels::trials(&AMDGPU, FORMS))
};

const FORMS: &[Form] = &[Form { name: "code object", make: code_object }];

fn code_object(target: &str) -> Option<Vec<u8>> {
    let processor = target.split(':').next().expect("a part");
    amdgpu::compiled(&kernels::source(), processor, &["-O3"])
}
