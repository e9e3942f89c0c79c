//! The programs of `runs` in another process.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "folder.rs"]
mod folder;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "runs.rs"]
mod runs;

/// Options of the command for all programs.
const OPTIONS: &[&str] = &["--executor"];

/// Whether bitcode replaces objects.
const IS_BITCODE: bool = false;
