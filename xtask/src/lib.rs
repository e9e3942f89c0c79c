//! # The repository's tasks
//!
//! The tasks of `cargo xtask`, one file per task. The tests of this crate also use [`header`]: they
//! check that the headers in the repository are up to date.

#[cfg(feature = "tasks")]
pub mod bench;
#[cfg(feature = "tasks")]
pub mod crates;
pub mod demo;
mod documentation;
mod files;
#[cfg(feature = "tasks")]
pub mod gpu_check;
#[cfg(feature = "tasks")]
pub mod header;
pub mod install;
#[cfg(feature = "tasks")]
pub mod intel_opencl;
#[cfg(feature = "tasks")]
pub mod mathematics;
pub mod openmp_libraries;
#[cfg(feature = "tasks")]
pub mod package;
pub mod process;
pub mod prose;
#[cfg(feature = "tasks")]
pub mod python;
#[cfg(feature = "tasks")]
pub mod sanitize;
pub mod shared_library;
pub mod test;

use std::path::PathBuf;

/// Returns the root of the repository, the working folder of every task.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the repository").to_owned()
}
