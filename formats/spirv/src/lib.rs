//! # Images for Vulkan: SPIR-V and WGSL
//!
//! What a module says of its kernels, for the Vulkan backend that runs them and for tools that show
//! them. SPIR-V has no word for a kernel's arguments, for globals, constructors or dynamic shared
//! memory; `docs/vulkan-images.md` says by which conventions a module expresses them, and this crate
//! reads them.
//!
//! - [`Module`]: an image, parsed and reflected. [`Module::parse`] takes both formats, and any bytes.
//! - [`Kernel`]: an entry point, its [`Parameter`]s and where each of them goes.
//! - [`Requirements`]: what a device must have.
//! - [`Module::code`]: what the driver compiles, for a [`Specialization`].

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
    Block, Buffer, Code, GroupSize, Home, Kernel, Member, NumberKind, Parameter, Place, Procedure,
    SharedMemory, Specialization, SubgroupSize, Target,
};
pub use module::{Format, Module};
pub use requirements::{Atomic, FloatControl, Requirements};
