//! # Images for AMD's GPUs: code objects
//!
//! What a code object says of its target, its kernels and its variables, for the AMDGPU backend that loads it,
//! for a double of HIP and for tools that show it. It is read without a driver.
//!
//! - [`Target`]: what code is for, as `gfx90a:sramecc+:xnack-`, and [`Target::runs_on`]: which devices run it.
//! - [`Header`]: what the first bytes tell: version, target, linked or not. It costs next to nothing.
//! - [`CodeObject`]: the [`Kernel`]s with their [`Argument`]s, the [`Variable`]s, and what is missing.
//! - [`loadable`]: whether AMD's runtimes survive a linked file, and a copy that they do.
//!
//! Readers are total: any bytes give contents or say why they are [`Malformed`]. What a code object says is
//! LLVM's AMDGPUUsage.

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
pub use fit::{Fit, NotFor};
pub use header::Header;
pub use kernel::{Kernel, KernelKind};
pub use loadable::loadable;
pub use target::{Feature, Target, is_triple};
pub use variable::{Linkage, Variable};

/// Why bytes are no code object, or text no target ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);
