//! # Images for AMD's GPUs: code objects
//!
//! Reads the target, the kernels and the variables of a code object, without a driver. Users are
//! the AMDGPU backend, a test double of HIP, and tools that print code objects.
//!
//! - [`Target`]: the target of code, such as `gfx90a:sramecc+:xnack-`, and [`Target::runs_on`],
//!   which compares it with a device.
//! - [`Header`]: the contents of the first bytes: version, target, linked or not. Reading it is
//!   cheap.
//! - [`CodeObject`]: the [`Kernel`]s with their [`Argument`]s, the [`Variable`]s, and the undefined
//!   symbols.
//! - `loadable`: checks whether AMD's runtimes survive a linked file, and repairs
//!   it if possible.
//!
//! Readers are total: for any bytes they return contents, or the reason why the bytes are
//! [`Malformed`]. LLVM's AMDGPUUsage documents the format.

mod argument;
mod code_object;
mod file;
mod fit;
mod header;
mod kernel;
mod loadable;
mod metadata;
mod processor;
mod target;
#[cfg(test)]
mod tests;
mod variable;

pub use argument::{Argument, ArgumentKind};
pub use code_object::CodeObject;
pub use fit::{Fit, TargetMismatch};
pub use header::Header;
pub use kernel::{Kernel, KernelKind};
pub use loadable::loadable;
pub use target::{Feature, Target, is_triple};
pub use variable::{Linkage, Variable};

/// The reason why bytes are not a code object, or text is not a target ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);
