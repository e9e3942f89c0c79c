//! # LLVM Offload's C API, on Longshore
//!
//! `libLLVMOffload.so`: what `OffloadAPI.h` of LLVM 23.1 declares, with backends as plugins. A program that was
//! written for LLVM's is compiled against `include/OffloadAPI.h`, or only run with this library on its path.
//!
//! - `functions.rs` declares the functions: what each takes, what it refuses in which order, where its work is done.
//!   `enumerations.rs` and `structures.rs` declare the rest. The macros of `declare.rs` make C functions of that, and
//!   `cargo xtask header` the header.
//! - `call.rs` is what every function does around its work; `answer.rs` has its results, `trace.rs` what
//!   `OFFLOAD_TRACE` prints. `given.rs` looks at what callers give as an address and a number.
//! - `context.rs` is what olInit makes and the last olShutDown ends; `handle.rs` is what handles are, over `slot.rs`, where
//!   an object is that others may destroy.
//! - The other files do the work, on the types of `longshore`, one for each kind of handle.
//!
//! Start reading at `functions.rs`.

#![allow(non_camel_case_types, non_snake_case, reason = "the names are LLVM's")]

mod answer;
mod call;
mod context;
mod declare;
mod device;
mod enumerations;
mod event;
mod functions;
mod given;
mod handle;
mod info;
mod launch;
mod memory;
mod older;
mod platform;
mod program;
mod queue;
mod slot;
mod structures;
mod symbol;
mod sync;
mod trace;
mod unanswered;

pub use enumerations::*;
pub use functions::*;
pub use structures::*;
