//! Twins of the conformance suite's images: the same sources, compiled for x86-64, which doubles of drivers run.
//!
//! The build script compiles each source once. An image of any form, PTX, cubin or code object, finds the object by the
//! image's hash.

use std::path::Path;

/// Returns the folder in which doubles look for twins. Tests may add further ones.
pub fn folder() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/twins"))
}
