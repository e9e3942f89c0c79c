//! LLVM's C API, opened at run time: LLVM 14 to 22, without any of them at build time.
//!
//! - [`Library`] is an opened `libLLVM`, with its version.
//! - [`Functions`] is the table of its functions, under their names in C. Their documentation is
//!   LLVM's own, in `llvm-c/*.h`.
//! - [`types`] has the handles and the numbers of the API, which are equal in all these versions.
//!
//! LLVM ends the process on some errors, and its functions do not check their arguments. So
//! untrusted bitcode belongs into a process of its own.

mod functions;
mod library;
pub mod types;

pub use functions::Functions;
pub use library::{Library, NEWEST, OLDEST, OpenError, candidates};

#[cfg(test)]
mod tests;
