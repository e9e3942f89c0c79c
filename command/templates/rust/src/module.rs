//! Loaded images and their kernels. The device has no kernels yet, and refuses all images.

use crate::AcmePlugin;
use longshore_plugin_api::{Error, ErrorCode, KernelAttributes, Module, Result, SymbolKind};
use std::sync::Arc;

/// A loaded image. Your driver: put its handle here.
pub struct AcmeModule;

/// A kernel of an image. Your driver: put its handle here.
pub struct AcmeKernel;

/// Returns the reason to refuse an image. Your driver: look for the magic bytes and the
/// architecture of its images, and say which of them is wrong; `None` for an image that `load`
/// would try (P-37).
pub(crate) fn refusal(image: &[u8]) -> Option<String> {
    let bytes = image.len();
    Some(format!(
        "the image of {bytes} bytes is not for acme, which has no image format yet"
    ))
}

// Your driver: globals, constructors and destructors are optional methods of the trait.
impl Module<AcmePlugin> for AcmeModule {
    // Your driver: return the kernel, and the sizes of its arguments if the image describes them.
    // The host checks launches against them (P-42).
    fn kernel(&self, name: &str) -> Result<(Arc<AcmeKernel>, KernelAttributes)> {
        let message = format!("the image has no kernel '{name}'");
        Err(Error::new(ErrorCode::NotFound, message))
    }

    // Your driver: all kernels and globals (P-41).
    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        Ok(Vec::new())
    }
}
