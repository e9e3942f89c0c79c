//! # Images for Vulkan: SPIR-V and WGSL
//!
//! Reads the kernels of a module, for the Vulkan backend that runs them and for tools that print
//! them. SPIR-V has no terms for a kernel's arguments, for globals, constructors or dynamic shared
//! memory. This crate reads the conventions by which modules express them, which
//! `docs/vulkan-images.md` documents.
//!
//! - [`Module`]: an image, parsed and reflected. [`Module::parse`] accepts both formats, and any
//!   bytes.
//! - [`Kernel`]: an entry point, its [`Parameter`]s and the place of each.
//! - [`Requirements`]: the requirements of a module on a device.
//! - [`Module::code`]: the code for the driver, for a [`Specialization`].

mod constants;
mod fault;
mod kernel;
mod module;
mod prune;
mod push_constants;
mod reflect;
mod requirements;
mod shared;
mod tables;
#[cfg(test)]
mod tests;
mod types;
mod wgsl;
mod words;

pub use fault::{Fault, FaultKind};
pub use kernel::{
    Block, BlockStorage, Buffer, Code, GroupSize, Kernel, Member, NumberKind, Parameter, Place,
    Procedure, SharedMemory, Specialization, SubgroupSize, Target,
};
pub use module::{Format, Module};
pub use requirements::{Atomic, FloatControl, Requirements};
