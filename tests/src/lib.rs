//! # Made worlds for the integration tests of Longshore
//!
//! The tests in this crate use several crates at once, on all available devices.
//!
//! - [`gpus`] lists the devices, with doubles of drivers ([`doubled`]) in place of missing devices.
//! - [`world`] makes folders of plugins.
//! - [`kernels`] has kernels that tests check and benchmarks time.
//! - [`cuda_kernels`] compiles and runs sources in CUDA and HIP.
//! - [`items`] compiles and runs kernels of work-items, and [`random_kernels`] makes some.
//! - [`mpi`] starts programs with nodes, under launchers of MPI.
//! - [`suites`] are test programs with several environments.
//!
//! The conformance suite itself is `longshore-conformance`. The test program `conformance` runs it
//! for every device of this machine.

pub mod amdgpu;
pub mod checks;
pub mod cuda;
pub mod cuda_kernels;
pub mod device_code;
pub mod doubled;
pub mod effort;
pub mod gpus;
pub mod items;
pub mod kernels;
pub mod mpi;
pub mod pages;
pub mod programs;
pub mod random_kernels;
pub mod resource_usage;
pub mod suites;
pub mod vulkan;
pub mod world;
