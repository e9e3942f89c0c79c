//! The kernels on AMD's GPUs.

#[path = "../gpu_kernels/shared.rs"]
mod gpu_kernels;

use longshore_tests::doubled::AMDGPU;
use longshore_tests::{amdgpu, kernels};
use std::process::ExitCode;

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { AMDGPU.take_driver() };
    gpu_kernels::main(&AMDGPU, images)
}

fn images(target: &str) -> Vec<(&'static str, Vec<u8>)> {
    let processor = target.split(':').next().expect("a part");
    let image = amdgpu::compiled(&kernels::source(), processor, &["-O3"]);
    image.map(|image| ("code object", image)).into_iter().collect()
}
