//! Loading of trusted images in tests.

use longshore::{Device, Image, LoadOptions, Program, Result};

/// Methods for images of the suite and of its user: [`Device::load`] and [`Device::load_with`]
/// without an `unsafe` block in each test.
///
/// For tests only: a caller of these methods makes the promise that [`Device::load`] requires.
pub trait TrustedImages {
    /// Loads an image. Blocks.
    ///
    /// # Errors
    /// Errors of [`Device::load`].
    fn load_trusted(&self, image: impl Into<Image>) -> Result<Program>;

    /// Loads an image lazily. May block.
    ///
    /// # Errors
    /// Errors of [`Device::load_with`].
    fn load_trusted_lazily(&self, image: impl Into<Image>) -> Result<Program>;
}

impl TrustedImages for Device {
    fn load_trusted(&self, image: impl Into<Image>) -> Result<Program> {
        // SAFETY: the images' code is the tests' own, or that of the user of a check with images.
        // Devices refuse damaged copies before they run.
        unsafe { self.load(image) }
    }

    fn load_trusted_lazily(&self, image: impl Into<Image>) -> Result<Program> {
        // SAFETY: as above.
        unsafe { self.load_with(image, &LoadOptions::new().with_lazy_linking(true)) }
    }
}
