//! The descriptions of kernels in AMD's code objects, for the line that LLVM prints about a launch.

use crate::compiler;
use crate::settings::{info as kinds, wants};
use longshore_format_amdgpu::{CodeObject, Kernel};

/// Returns the kernels that an image describes: none unless the image is AMD's and launches are
/// printed.
pub(crate) fn described_kernels(image: &[u8]) -> Vec<Kernel> {
    if !wants(kinds::LAUNCHES) {
        return Vec::new();
    }
    let read = compiler::elf(image).and_then(|bytes| CodeObject::read(bytes).ok());
    read.map_or_else(Vec::new, |read| read.kernels)
}
