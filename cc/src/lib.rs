//! # Compilation of kernels
//!
//! This crate compiles kernels in C, C++, CUDA and HIP with an installed clang, for several targets
//! at once. The command `longshore cc` and build scripts with `longshore-build` are its users; a
//! program calls one of these.
//!
//! A [`Compilation`] has sources and [`Target`]s, and its [`Compilation::run`] returns an image for
//! each target. The steps are the body of this method. Module `build` makes one image, and `flags`
//! holds the options that each version of clang needs for it.
//!
//! The crate contains the headers that kernels include. Passes over LLVM's IR need the `libLLVM` of
//! clang's version; [`Passes`] chooses the process in which they run.

mod build;
mod checks;
mod clang;
mod compilation;
mod crash;
mod cuda;
mod failure;
mod flags;
mod headers;
mod loops;
mod options;
mod passes;
pub mod path;
mod profile;
mod source;
mod step;
mod system;
mod target;
mod undefined;
mod workspace;

pub use compilation::{Compilation, Output, TargetImage};
pub use failure::{Exit, Failure};
pub use headers::all as headers;
pub use options::arguments;
pub use passes::{Passes, run_passes};
pub use source::Language;
pub use target::{ImageKind, Machine, Target};
