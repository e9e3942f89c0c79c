//! # LLVM's libomptarget interface, on Longshore
//!
//! `libomptarget.so`: the functions that clang's OpenMP programs call for target regions and data
//! regions, and the functions `omp_target_*` of the OpenMP specification. Programs of clang 13 to
//! 23 run unchanged with this library on their path.
//!
//! From the top down, each layer uses only the layers below it:
//!
//! - `exports/` has the exported functions, by subject; `construct.rs` the steps around every
//!   construct: the choice of the device, and the outcome.
//! - `region.rs` runs a target region: mappings, translation of arguments, launch, end of mappings.
//! - `mapping/` has the mapping table, and the beginning, end and update of mappings.
//! - `stream.rs` has the operations of a construct in order; `memory.rs` the memory behind
//!   mappings.
//! - `gpu/` launches on GPUs, and has what their images need of the host.
//! - `runtime.rs` has the state of the process, `device.rs` a device, `loading.rs` the images of a
//!   library on a device, `library.rs` a registered library.
//! - `ompt/` tells tools of all this; any layer above calls it.
//! - `info.rs`, `dump.rs`, `debug.rs` and `profile.rs` tell users of constructs, `ompt/` tools.
//! - `abi.rs` and `entries.rs` read the structures of compiled programs; `libomp.rs` calls libomp.
//!
//! Start reading at `exports/regions.rs`.

pub mod abi;
mod allocations;
mod background;
mod backlog;
mod compiler;
mod construct;
mod debug;
mod device;
mod dump;
mod entries;
mod exit;
pub mod exports;
mod gpu;
mod info;
mod interop;
mod kernel;
mod libomp;
mod library;
mod loading;
mod mapping;
mod memory;
mod message;
mod ompt;
mod place;
mod profile;
mod rectangle;
mod region;
mod runtime;
mod settings;
mod stream;
mod sync;
mod tasks;
mod transfer;
mod variables;
