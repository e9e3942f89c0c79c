//! Target regions on GPUs: what LLVM's device runtime in an image expects of the host.
//!
//! - `limits.rs` has the properties of a GPU that decide launches, `shape.rs` the choice of teams
//!   and threads.
//! - `description.rs` reads what AMD's code objects say of kernels.
//! - `environment.rs` has the structures that host and device runtime share, `kernel.rs` reads a
//!   kernel's own.
//! - `image.rs` prepares a loaded image, `launch.rs` launches a kernel.
//! - `pin.rs` page-locks memory of mapped variables.
//! - `rpc/` answers calls of device code: output, memory, functions of the host.

mod description;
mod environment;
mod image;
mod indirect;
mod kernel;
mod launch;
mod limits;
mod pin;
pub(crate) mod rpc;
mod shape;

pub(crate) use description::described_kernels;
pub(crate) use image::GpuImage;
pub(crate) use indirect::pointer;
pub(crate) use kernel::KernelFacts;
pub(crate) use launch::launch;
pub(crate) use limits::{Gpu, host_environment};
pub(crate) use pin::Pin;
