//! `longshore link`: the behaviour of its programs, its output for other tools, and its errors.
//! Tests compare it with the system's linker where both can do the same.

#![allow(clippy::duplicate_mod, reason = "tests of programs are run in several places")]

mod bitcode;
mod by_messages;
mod compiled_lazily;
mod dumps;
mod errors;
mod executors;
mod folder;
mod in_executor;
mod json;
mod lazily;
mod lazily_by_messages;
mod lazily_in_executor;
mod lazy;
mod names;
mod options;
mod runs;

/// Options of the command for all programs.
const OPTIONS: &[&str] = &[];

/// Whether bitcode replaces objects.
const IS_BITCODE: bool = false;

const AARCH64: &str = "aarch64-linux-gnu-gcc";
