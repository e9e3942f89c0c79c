//! Tests of the linker: objects of real compilers, executed in this process or another, the
//! linker's use of memory, and other tools beside it.

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
