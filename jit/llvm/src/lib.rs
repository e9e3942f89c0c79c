//! LLVM's C API, opened at run time: LLVM 14 to 22, without any of them at build time.
//!
//! - [`Library`] is an opened `libLLVM`, with its version.
//! - [`Functions`] is the table of its functions, under their names in C. Their documentation is
//!   LLVM's own, in `llvm-c/*.h`.
//! - [`Ir`] is a module, with what passes over it have in common; [`change_bitcode`] runs one.
//! - [`types`] has the handles and the numbers of the API, which are equal in all these versions.
//!
//! LLVM ends the process on some errors, and its functions do not check their arguments. So
//! untrusted bitcode belongs into a process of its own.

#![allow(clippy::macro_metavars_in_unsafe, reason = "the arguments of `ll` are handles")]

mod bitcode;
mod functions;
mod ir;
mod library;
pub mod types;

pub use bitcode::change_bitcode;
pub use functions::Functions;
pub use ir::Ir;
pub use library::{Library, NEWEST, OLDEST, OpenError, candidates};

#[cfg(test)]
mod tests;
