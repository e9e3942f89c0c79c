//! The core of a program, which its device and all handles to it share.

use crate::backend::AnyModule;
use crate::image::Image;
use crate::rundown::Rundown;
use longshore_plugin_api::{Error, ErrorCode};
use parking_lot::Mutex;

/// A loaded image, owned by its device and by the handles to it.
pub(crate) struct ProgramCore {
    pub(crate) id: u64,
    /// Entered by everything that uses the module, sharded by queue; taken by unloading.
    pub(crate) module: Rundown<AnyModule, 8>,
    /// The managed bytes, until the module was unloaded.
    pub(super) image: Mutex<Option<Image>>,
}

/// Returns the error for a program that is not loaded any more.
#[cold]
pub(crate) fn unloaded() -> Error {
    Error::new(ErrorCode::Uninitialized, "the program was unloaded")
}
