//! # The repository's tasks
//!
//! What `cargo xtask` runs, one file per task. [`header`] is also used by the tests of this crate,
//! which hold that what lies in the repository is what the task would write.

#[cfg(feature = "tasks")]
pub mod bench;
pub mod demo;
mod documentation;
#[cfg(feature = "tasks")]
pub mod gpu_check;
#[cfg(feature = "tasks")]
pub mod header;
pub mod install;
pub mod offload_library;
pub mod process;
pub mod prose;
#[cfg(feature = "tasks")]
pub mod sanitize;
pub mod test;

use std::path::PathBuf;

/// Returns the repository's root, which every task works from.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the repository").to_owned()
}
