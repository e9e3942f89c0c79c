//! The programs of `runs` in another process, to which everything is sent by messages.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "folder.rs"]
mod folder;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "runs.rs"]
mod runs;

/// Options with which the command runs everything.
const OPTIONS: &[&str] = &["--executor", "--no-shared-memory"];

/// Whether bitcode is linked in the place of what is compiled to objects.
const IS_BITCODE: bool = false;
