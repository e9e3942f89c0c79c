//! Twins of the conformance suite's images: the same sources, compiled for x86-64, which doubles of
//! drivers run.
//!
//! The build script compiles each source once. The hash of an image in any form (PTX, cubin or code
//! object) leads to the object.

use std::path::Path;

/// Returns the folder in which doubles look for twins. Tests may add further twins.
pub fn folder() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/twins"))
}
