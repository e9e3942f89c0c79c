//! Compilation of LLVM bitcode by `libLLVM`, which is opened at run time.
//!
//! - [`Compile`] is a compiler: it takes a [`Request`] and returns the code of a [`Target`]. For
//!   x86-64 and AArch64 that is a relocatable object, for NVIDIA PTX text, for AMD a code object.
//! - [`Compiler`] compiles in this process. LLVM may end the process, so the crate
//!   `longshore-executor` has a compiler in a process of its own.
//! - [`Producer`] is the writer of a file of bitcode. Bitcode of a newer LLVM than the library's is
//!   refused before LLVM reads it.
//!
//! ```no_run
//! use longshore_compiler::{Compile, Compiler, Module, Options, Part, Request, Target};
//!
//! let module = Module::new(std::fs::read("kernels.bc").unwrap());
//! // SAFETY: clang made the module, and the system's libLLVM is LLVM's.
//! let compiler = unsafe { Compiler::in_process([]) };
//! let (target, options) = (Target::default(), Options::default());
//! let request =
//!     Request { module: &module, part: &Part::Whole, target: &target, options: &options };
//! let object = compiler.compile(&request)?.bytes;
//! # Ok::<(), longshore_compiler::CompileError>(())
//! ```
//!
//! Start reading at `request.rs`, then `compiler.rs`.

pub mod bitstream;
mod code_object;
mod compiler;
mod context;
mod libraries;
mod machine;
mod nvptx;
mod parts;
pub mod producer;
mod request;
mod shards;
mod targets;
#[cfg(test)]
mod tests;
mod variant;

pub use compiler::{Compiler, PrePass};
pub use libraries::{FatalErrorHandler, set_fatal_error_handler};
pub use producer::Producer;
pub use request::{
    CompilationFacts, Compile, CompileError, Compiled, Level, LibraryChoice, LibraryVersion,
    Module, Options, Output, Part, Request, Target,
};
pub use targets::has_wide_vectors;
pub use variant::{Constant, NumberKind, Variant, VariantProblem};
