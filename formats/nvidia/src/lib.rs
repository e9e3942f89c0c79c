//! # Images for CUDA: PTX, cubins and fatbins
//!
//! Reads the kernels and variables of an image, without a driver. Users are the CUDA backend, a
//! test double of the driver, and tools that print images. The driver looks symbols of a
//! loaded module up by name, but does not list them. Therefore this crate reads names, sizes,
//! initial values and undefined symbols.
//!
//! - [`Kind`]: the kind of an image; [`Arch`]: its architecture, and the devices that run it.
//! - [`Contents`]: the [`Kernel`]s and [`Variable`]s of PTX text or of a cubin.
//! - `fatbin`: the images of NVIDIA's container.
//!
//! PTX text and the machine code made from it report the same variables: sizes, initial values, and
//! the addresses in these values.
//!
//! Readers are total: for any bytes they return contents, or the reason why the bytes are
//! [`Malformed`]. Their cost grows with the number of bytes, and no allocation follows from a
//! claimed size alone. A limit and the size in its header bound decompressed data.

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

/// The reason why bytes are not an image of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);
