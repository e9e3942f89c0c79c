//! `longshore link`: what programs that it links do, what it tells other tools, and its errors.
//! What the system's linker can do too is compared with it.

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

/// Options with which the command runs everything.
const OPTIONS: &[&str] = &[];

/// Whether bitcode is linked in the place of what is compiled to objects.
const IS_BITCODE: bool = false;

const AARCH64: &str = "aarch64-linux-gnu-gcc";
