//! Behaviour of devices outside the conformance suite: on every device of this machine, and on
//! doubles of missing drivers. Each module is a suite, and `[module] ` begins the names of its
//! trials.

mod amdgpu_driver;
mod amdgpu_images;
mod amdgpu_kernels;
mod cuda_driver;
mod cuda_images;
mod cuda_kernels;
mod cuda_sources;
mod full_devices;
mod gpu_images;
mod gpu_kernels;
mod openmp_images;
mod rounds;
mod spirv_kernels;
mod stress;
mod vulkan_images;
mod vulkan_kernels;

use longshore_tests::suites;
use std::process::ExitCode;

fn main() -> ExitCode {
    suites::main(&[
        amdgpu_driver::SUITE,
        amdgpu_images::SUITE,
        amdgpu_kernels::SUITE,
        cuda_driver::SUITE,
        cuda_images::SUITE,
        cuda_kernels::SUITE,
        cuda_sources::FOR_CUDA,
        cuda_sources::FOR_AMDGPU,
        full_devices::SUITE,
        openmp_images::SUITE,
        rounds::SUITE,
        spirv_kernels::SUITE,
        stress::SUITE,
        vulkan_images::SUITE,
        vulkan_kernels::SUITE,
    ])
}
