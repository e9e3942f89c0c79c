//! # A double of the HIP runtime
//!
//! A `libamdhip64.so` for tests on machines without an AMD GPU. It has the functions that
//! Longshore's plugin uses, and checks calls against HIP's documentation. Where that allows several
//! behaviours, the double takes the least convenient one. It runs kernels by their twins in a
//! process in place of the GPU; `longshore_double_gpu` documents twins. The device's name says that
//! it is a double.
//!
//! The environment variable `LONGSHORE_HIP_DOUBLE` has the **settings**, as
//! `name=value;name=value`:
//!
//! | setting | meaning | default |
//! | --- | --- | --- |
//! | `twins` | the folder of twins | no image can be loaded |
//! | `devices` | the number of devices, up to 8; 0 for a runtime without devices | 1 |
//! | `target` | target IDs, the last repeated: `gfx90a:xnack+,gfx1100` | `gfx90a:sramecc+:xnack-` |
//! | `memory` | of each device: `4G` | 8G |
//! | `multiprocessors` | compute units of each device | 4 |
//! | `version` | the version of HIP: 5, 6 or 7, with an optional minor version: `6.4` | 7.2 |
//! | `init` | the result of `hipInit`, and of all functions that need it | 0 |
//! | `pools`, `managed`, `peer` | 0 for devices without the feature | 1 |
//! | `fault` | `abort`: an access outside memory ends the process, as on GPUs | error 700 |
//! | `missing` | functions that the runtime lacks: `hipMemPoolCreate,hipMemPrefetchAsync` | |
//! | `fail` | number and result of a function's failing call: `hipMalloc:3:2,...` | |
//! | `slow` | delays, also of the work itself: `hipMalloc:500us,kernel:9us,copy:9us` | |
//! | `gpu` | the program of GPU processes | `longshore-double-gpu` beside this library |
//! | `report` | the file to which violations and leaks are appended | standard error |
//! | `quiet` | suppresses the report | |
//! | `ends` | functions fail from the driver's exit handler on, as a real driver's do | |
//!
//! With the version 5, the double lacks the functions that HIP 5.2 lacks.
//! `__longshore_printf_buffer` is a variable like any other: twins print by themselves.
//!
//! **While it runs**, tests use `longshore_double_gpu::Double`.
//!
//! The vendor-independent parts are in `longshore_double_gpu::driver`. This crate has the functions
//! (`functions.rs`), devices (`current.rs`, `attributes.rs`, `properties.rs`), images (`image.rs`),
//! and HIP's behaviour (`vendor.rs`).

mod attributes;
mod code;
mod current;
mod functions;
mod image;
mod memory;
mod properties;
mod rect;
mod survival;
mod vendor;
mod version;

longshore_double_gpu::export_double!(&vendor::Hip);
