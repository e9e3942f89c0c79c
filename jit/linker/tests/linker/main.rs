//! The linker: objects of real compilers that this process executes or another does, memory that it takes, and other tools
//! beside it.

#![allow(
    clippy::duplicate_mod,
    reason = "`processes` repeats tests of `in_process` with another process"
)]

mod heap;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod in_process;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod processes;
mod tools;
