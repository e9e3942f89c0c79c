//! The kernels on CUDA: as PTX, which the driver compiles, and as machine code.

#[path = "../gpu_kernels/shared.rs"]
mod gpu_kernels;

use longshore_tests::doubled::CUDA;
use longshore_tests::{cuda, kernels};
use std::process::ExitCode;

fn main() -> ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { CUDA.take_driver() };
    gpu_kernels::main(&CUDA, images)
}

fn images(arch: &str) -> Vec<(&'static str, Vec<u8>)> {
    let Some(ptx) = cuda::compiled(&kernels::source(), arch, &["-O3"]) else { return Vec::new() };
    let cubin = cuda::assembled(&ptx, arch, &["-O3"]).map(|cubin| ("cubin", cubin));
    [("PTX", ptx)].into_iter().chain(cubin).collect()
}
