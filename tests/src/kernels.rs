//! The kernels of `kernels/kernels.c`, made with `longshore_device.h`: their compilation, their
//! launches, and the expected results, computed in plain Rust.

mod build;
mod launches;
mod numbers;
mod reference;
mod rig;

pub use build::{Build, Language, Shape};
pub use launches::{Form, GROUP, Kernels, RADIUS, SORTED, elements, parts};
pub use numbers::{bodies, bytes, integers, small_floats};
pub use reference::{
    PullBound, block_sums, histogram, matmul, nbody, nbody_bounds, prefix_sum, reduce, saxpy,
    sorted_blocks, stencil, triad, wide_stencil,
};
pub use rig::{Poisoned, Rig};

use crate::world::root;
use std::path::PathBuf;

/// Returns the path of the kernels' source.
pub fn source() -> PathBuf {
    root().join("tests/kernels/kernels.c")
}
