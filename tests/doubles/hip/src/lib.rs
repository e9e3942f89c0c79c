//! # A double of the HIP runtime
//!
//! A `libamdhip64.so` for tests on machines without a GPU of AMD's. It has the functions that Longshore's plugin uses, holds
//! calls against what HIP's documentation says, behaves as badly as that allows, and runs kernels by their twins in a
//! process that stands in for the GPU (`longshore_double_gpu`, which also says what a twin is). Its device's name says
//! that it is a double.
//!
//! **Settings** are in the environment variable `LONGSHORE_HIP_DOUBLE`, as `name=value;name=value`:
//!
//! | setting | what it is | without it |
//! | --- | --- | --- |
//! | `twins` | the folder of twins | no image can be loaded |
//! | `devices` | how many devices there are, up to 8; 0 for a runtime without | 1 |
//! | `target` | the target ID of each device, the last one for all others: `gfx90a:xnack+,gfx1100` | `gfx90a:sramecc+:xnack-` |
//! | `memory` | of each device: `4G` | 8G |
//! | `multiprocessors` | compute units of each device | 4 |
//! | `version` | the version of HIP, 5, 6 or 7, with a minor one if it matters: `6.4` | 7.2 |
//! | `init` | what `hipInit` answers, and all others that need it | 0 |
//! | `pools`, `managed`, `peer` | 0 for devices without | 1 |
//! | `fault` | `abort`: a kernel that leaves its memory ends the process, as GPUs of AMD's do | it is error 700 |
//! | `missing` | functions that the runtime lacks: `hipMemPoolCreate,hipMemPrefetchAsync` | |
//! | `fail` | which call of a function fails, and how: `hipMalloc:3:2,...` | |
//! | `slow` | how long functions take: `hipModuleLaunchKernel:500us`; also `kernel` and `copy`, the work itself | |
//! | `gpu` | the program of GPU processes | `longshore-double-gpu` beside this library |
//! | `report` | the file at whose end violations and leaks are told | standard error |
//! | `quiet` | tell nothing | |
//! | `ends` | as a real driver's, all functions answer that it was ended, from its exit handler on | |
//!
//! What HIP 5 lacks is what 5.2 lacks. `__longshore_printf_buffer` is a variable like any other: twins print by
//! themselves.
//!
//! **While it runs**, tests use `longshore_double_gpu::Double`.
//!
//! What is not HIP's own is `longshore_double_gpu::driver`. Here are the functions (`functions.rs`), devices (`current.rs`,
//! `attributes.rs`, `properties.rs`), images (`image.rs`), and what `vendor.rs` says.

mod attributes;
mod code;
mod current;
mod functions;
mod image;
mod memory;
mod properties;
mod survival;
mod vendor;
mod version;

longshore_double_gpu::export_double!(&vendor::Hip);
