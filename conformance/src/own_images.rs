//! Loading of images that the tests vouch for.

use longshore::{Device, Image, LoadOptions, Program, Result};

/// Loads images of the suite and of its user: [`Device::load`] and [`Device::load_with`] without an
/// `unsafe` block in each test.
///
/// For tests alone: whoever calls these methods promises what [`Device::load`] asks for.
pub trait OwnImages {
    /// Loads an image. Blocks.
    ///
    /// # Errors
    /// Errors of [`Device::load`].
    fn load_own(&self, image: impl Into<Image>) -> Result<Program>;

    /// Loads an image lazily. May block.
    ///
    /// # Errors
    /// Errors of [`Device::load_with`].
    fn load_own_lazily(&self, image: impl Into<Image>) -> Result<Program>;
}

impl OwnImages for Device {
    fn load_own(&self, image: impl Into<Image>) -> Result<Program> {
        // SAFETY: the code of tests' images is the tests' own, or that of the user who asks for the
        // check of a plugin with images; damaged copies of them are refused before they run.
        unsafe { self.load(image) }
    }

    fn load_own_lazily(&self, image: impl Into<Image>) -> Result<Program> {
        // SAFETY: as above.
        unsafe { self.load_with(image, &LoadOptions::new().with_lazy_linking(true)) }
    }
}
