//! # LLVM Offload's C API, on Longshore
//!
//! `libLLVMOffload.so`: the functions that `OffloadAPI.h` of LLVM 23.1 declares, with backends as plugins. A program that
//! was written for LLVM's library is compiled against `include/OffloadAPI.h`, or only run with this library on its path.
//!
//! From the top down, each floor using only those below it:
//!
//! - `functions.rs` declares the functions: parameters, refusals in their order, and the place of the work, in a file of
//!   `functions/` for each kind of handle. The macro of `functions/declare.rs` makes C functions of that, and
//!   `cargo xtask header` the header.
//! - `call.rs` is around the work of every function; `result_handle.rs` makes its results.
//! - `context.rs` has the platforms and devices between olInit and the last olShutDown.
//! - `objects.rs` has the objects that handles stand for, on the types of `longshore`.
//! - `registry.rs` finds an object by its handle, and keeps it while it is in use; it knows no kind of handle.
//! - `info.rs` writes answers of queries, `given.rs` looks at addresses and sizes of callers.
//! - `types.rs` declares the enumerations, structures and handles, and shows their values in a trace.
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
