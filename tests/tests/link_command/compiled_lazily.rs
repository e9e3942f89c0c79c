//! The programs of `runs` as bitcode, compiled as they are called, in this process.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "folder.rs"]
mod folder;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "runs.rs"]
mod runs;

/// Options with which the command runs everything.
const OPTIONS: &[&str] = &["--lazy"];

/// Whether bitcode is linked in the place of what is compiled to objects.
const IS_BITCODE: bool = true;
