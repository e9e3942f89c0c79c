//! # A double of the CUDA driver
//!
//! A `libcuda.so.1` for tests on machines without a GPU of NVIDIA's. It has the functions that Longshore's plugin uses, holds
//! calls against what the driver's documentation says, behaves as badly as that allows, and runs kernels by their
//! twins in a process that stands in for the GPU (`longshore_double_gpu`, which also says what a twin is). Its
//! device's name says that it is a double.
//!
//! **Settings** are in the environment variable `LONGSHORE_CUDA_DOUBLE`, as `name=value;name=value`:
//!
//! | setting | what it is | without it |
//! | --- | --- | --- |
//! | `twins` | the folder of twins | no image can be loaded |
//! | `devices` | how many devices there are, up to 8; 0 for a driver without | 1 |
//! | `capability` | the compute capability | 9.0 |
//! | `memory` | of each device: `4G` | 8G |
//! | `multiprocessors` | of each device | 4 |
//! | `driver` | the version of CUDA | 12.8 |
//! | `init` | what `cuInit` answers | 0 |
//! | `pools`, `managed`, `peer` | 0 for devices without | 1 |
//! | `missing` | functions that the driver lacks, by exported name: `cuMemPoolCreate,cuLaunchKernelEx` | |
//! | `fail` | which call of a function fails, and how: `cuMemAlloc_v2:3:2,...` | |
//! | `slow` | how long functions take: `cuLaunchKernel:500us`; also `kernel` and `copy`, the work itself | |
//! | `gpu` | the program of GPU processes | `longshore-double-gpu` beside this library |
//! | `tools` | the folder of `ptxas` and `nvlink` | found in several places (`link.rs`) |
//! | `report` | the file at whose end violations and leaks are told | standard error |
//! | `quiet` | tell nothing | |
//! | `ends` | as a real driver's, all functions answer that it was ended, from its exit handler on | |
//!
//! **While it runs**, tests use `longshore_double_gpu::Double`.
//!
//! What is not CUDA's own is `longshore_double_gpu::driver`. Here are the functions (`functions.rs`), contexts
//! (`current.rs`), images (`image.rs`), and what `vendor.rs` says.

mod attributes;
mod cluster;
mod code;
mod current;
mod functions;
mod image;
mod jit;
mod kernel;
mod link;
mod lists;
mod loading;
mod peer;
mod prefetch;
mod ptx_check;
mod vendor;
mod version;

longshore_double_gpu::export_double!(&vendor::Cuda);
