//! The core of a program, which its device and all handles to it share.

use super::variant::Variants;
use crate::backend::AnyModule;
use crate::image::Image;
use crate::rundown::Rundown;
use longshore_plugin_api::{Error, ErrorCode};
use parking_lot::Mutex;

/// A loaded image, owned by its device and by the handles to the program.
pub(crate) struct ProgramCore {
    pub(crate) id: u64,
    /// The plugin's module. Each use enters it, sharded by queue; unloading takes it.
    pub(crate) module: Rundown<AnyModule, 8>,
    /// The image's bytes, kept until the module is unloaded.
    pub(super) image: Mutex<Option<Image>>,
    /// The variants of kernels that were compiled with the image.
    pub(super) variants: Variants,
}

/// Returns the error for a program that is not loaded any more.
#[cold]
pub(crate) fn unloaded() -> Error {
    Error::new(ErrorCode::Uninitialized, "the program was unloaded")
}
