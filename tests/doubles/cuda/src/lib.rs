//! # A double of the CUDA driver
//!
//! A `libcuda.so.1` for tests on machines without an NVIDIA GPU. It has the functions that
//! Longshore's plugin uses, and checks calls against the driver's documentation. Where that allows
//! several behaviours, the double takes the least convenient one. It runs kernels by their twins in
//! a process in place of the GPU; `longshore_double_gpu` documents twins. The device's name says
//! that it is a double.
//!
//! The environment variable `LONGSHORE_CUDA_DOUBLE` has the **settings**, as
//! `name=value;name=value`:
//!
//! | setting | meaning | default |
//! | --- | --- | --- |
//! | `twins` | the folder of twins | no image can be loaded |
//! | `devices` | the number of devices, up to 8; 0 for a driver without devices | 1 |
//! | `capability` | the compute capability | 9.0 |
//! | `memory` | of each device: `4G` | 8G |
//! | `multiprocessors` | of each device | 4 |
//! | `driver` | the version of CUDA | 12.8 |
//! | `init` | the result of `cuInit` | 0 |
//! | `pools`, `managed`, `peer` | 0 for devices without the feature | 1 |
//! | `missing` | functions that the driver lacks, by symbol: `cuMemPoolCreate,cuLaunchKernelEx` | |
//! | `fail` | number and result of a function's failing call: `cuMemAlloc_v2:3:2,...` | |
//! | `slow` | delays, also of the work itself: `cuLaunchKernel:500us,kernel:9us,copy:9us` | |
//! | `gpu` | the program of GPU processes | `longshore-double-gpu` beside this library |
//! | `tools` | the folder of `ptxas` and `nvlink` | found in several places (`link.rs`) |
//! | `report` | the file to which violations and leaks are appended | standard error |
//! | `quiet` | suppresses the report | |
//! | `ends` | functions fail from the driver's exit handler on, as a real driver's do | |
//!
//! **While it runs**, tests use `longshore_double_gpu::Double`.
//!
//! The vendor-independent parts are in `longshore_double_gpu::driver`. This crate has the functions
//! (`functions.rs`), contexts (`current.rs`), images (`image.rs`), and CUDA's behaviour
//! (`vendor.rs`).

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
mod rect;
mod vendor;
mod version;

longshore_double_gpu::export_double!(&vendor::Cuda);
