//! # Images for CUDA: PTX, cubins and fatbins
//!
//! What an image says of its kernels and variables, for the CUDA backend that loads it, for a double of the
//! driver and for tools that show it. The driver tells what a loaded module has only by name, so names,
//! sizes, initial values and what is missing are read here, without a driver.
//!
//! - [`Kind`]: what the bytes are; [`Arch`]: what they are for, and which devices run it.
//! - [`Contents`]: the [`Kernel`]s and [`Variable`]s of PTX text or of a cubin.
//! - [`fatbin`]: the images of NVIDIA's container.
//!
//! Readers are total: any bytes give contents or say why they are [`Malformed`].

mod arch;
mod contents;
mod cubin;
mod fatbin;
mod fields;
mod kind;
mod ptx;
#[cfg(test)]
mod tests;

pub use arch::{Arch, Variant};
pub use contents::{Contents, Kernel, Linkage, Place, Reference, Space, Variable};
pub use cubin::cubin_arch;
pub use fatbin::{FatbinEntry, fatbin};
pub use kind::Kind;

/// Why bytes are no image of the kind that they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);
