//! # LLVM Offload's C API, on Longshore
//!
//! `libLLVMOffload.so`: the functions that `OffloadAPI.h` of LLVM 23.1 declares, with backends as
//! plugins. A program for LLVM's library can be compiled with `include/OffloadAPI.h`, or run
//! unchanged with this library on its path.
//!
//! From the top down, each layer uses only the layers below it:
//!
//! - `functions.rs` declares the functions: parameters, refusals in their order, and the functions
//!   that do the work, in a file of `functions/` for each kind of handle. From that, the macro of
//!   `functions/declare.rs` generates C functions, and `cargo xtask header` the header.
//! - `call.rs` has the steps around the work of every function; `result_handle.rs` creates the
//!   results.
//! - `context.rs` has the platforms and devices between olInit and the last olShutDown.
//! - `objects.rs` has the objects behind handles, on the types of `longshore`.
//! - `registry.rs` finds an object by its handle, and keeps it while it is in use. The registry
//!   depends on no kind of handle.
//! - `info.rs` writes answers of queries, `given.rs` checks addresses and sizes from callers.
//! - `types.rs` declares the enumerations, structures and handles, and shows their values in a
//!   trace.
//!
//! Start reading at `functions.rs`.

#![allow(non_camel_case_types, non_snake_case, reason = "the names are LLVM's")]

mod call;
mod context;
mod functions;
mod given;
mod info;
mod objects;
mod registry;
mod result_handle;
mod sync;
mod types;

pub use functions::*;
pub use types::enumerations::*;
pub use types::structures::*;
