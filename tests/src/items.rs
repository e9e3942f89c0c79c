//! Kernels of work-items on the CPU: as each compiler and the pass over work-items make them, and
//! with AArch64's instructions in an emulator.

mod build;
mod emulator;
mod launch;
pub(crate) mod limits;

pub use build::{Build, Execution, wide_vector_flags};
pub use emulator::Emulator;
pub use launch::{Argument, Ending, Launch, Prepared};
