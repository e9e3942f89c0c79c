//! LLVM bitcode, compiled in a process of its own.
//!
//! A [`CompilerProcess`] is a [`Compile`](longshore_compiler::Compile). It starts an executor at
//! its first request and keeps it. The executor opens `libLLVM`, which the program never does, so a
//! crash, an end or a hang of LLVM is an error of the request that causes it.

mod messages;
mod process;
pub(crate) mod serve;
mod work_items;

pub use process::{CompilerProcess, Limits};
pub use work_items::change_kernels;
