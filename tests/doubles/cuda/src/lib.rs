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
//!
//! **While it runs**, tests use `longshore_double_gpu::Double`.
//!
//! A call is entered in `functions.rs`, which lists them all, and checked in `driver.rs`; then it is a plain Rust function
//! of the file whose subject it is. A contract that was broken is noted with `driver::broken`. Handles are looked up in
//! `object.rs`, pointers in `blocks.rs`.

mod attributes;
mod blocks;
mod code;
mod context;
mod control;
mod current;
mod device;
mod driver;
mod event;
mod fill;
mod function;
mod functions;
mod host_memory;
mod image;
mod jit;
mod launch;
mod life;
mod link;
mod lists;
mod loader;
mod machine;
mod memory;
mod module;
mod object;
mod occupancy;
mod pointer;
mod pool;
mod ptx_check;
mod registration;
mod stream;
mod transfer;
mod twin;
mod value;
mod version;
