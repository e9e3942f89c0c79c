//! # Made worlds for the integration tests of Longshore
//!
//! Tests here use several crates at once, on whatever devices there are: [`gpus`] lists them, with doubles of drivers
//! ([`doubled`]) where a vendor's device is missing; [`world`] makes folders of plugins; [`kernels`] has kernels that tests check
//! and benchmarks time. The conformance suite itself is `longshore-conformance`, which the test program `conformance` runs for every
//! device of this machine; [`suites`] are test programs with several environments.

pub mod amdgpu;
pub mod cuda;
pub mod device_code;
pub mod doubled;
pub mod effort;
pub mod gpus;
pub mod held;
pub mod kernels;
pub mod programs;
pub mod suites;
pub mod vulkan;
pub mod world;
