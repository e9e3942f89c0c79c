//! Images that a device receives, and the device's answers.

/// An image of a container, with the container's facts about it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImageEntry<'a> {
    /// Bytes of the image.
    pub bytes: &'a [u8],
    /// Target triple of the image, empty if the container has none.
    pub triple: &'a str,
    /// Architecture of the image, empty if the container has none: "gfx90a:xnack+", "sm_90",
    /// "x86-64-v3".
    pub arch: &'a str,
}

impl<'a> ImageEntry<'a> {
    /// Creates the entry of an image with the target triple and the architecture from its
    /// container, each empty if the container has none.
    pub const fn new(bytes: &'a [u8], triple: &'a str, arch: &'a str) -> ImageEntry<'a> {
        ImageEntry { bytes, triple, arch }
    }
}

/// The answer of [`Device::accepts`](crate::Device::accepts).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Acceptance {
    /// `load` would try the image.
    Accepted,
    /// `load` would try the image, and refuses it unless verification shows that loading,
    /// constructing and unloading it is sound whatever its bytes are. Nothing of an unverified
    /// image runs.
    Verified,
    /// `load` would refuse the image, for this reason.
    Refused(String),
}

impl Acceptance {
    /// Returns whether `load` would try the image.
    pub fn is_accepted(&self) -> bool {
        !matches!(self, Acceptance::Refused(_))
    }
}

/// The bytes of an image in the host's managed storage. They stay in place, unchanged, until
/// after the drop of the module that is made from them. An implementation of
/// [`Device::load`](crate::Device::load) keeps this value in the module, or drops it.
pub struct ImageBytes(&'static [u8]);

impl ImageBytes {
    /// Creates the value from bytes that the caller vouches for.
    ///
    /// # Safety
    /// The bytes must not move, change or go away until the module that is loaded from them was
    /// dropped, or its loading failed.
    pub unsafe fn new(bytes: &[u8]) -> ImageBytes {
        // SAFETY: the caller promises bytes that live as long as the module, so as long as `self`
        // lives and as `get` borrows.
        ImageBytes(unsafe { std::mem::transmute::<&[u8], &'static [u8]>(bytes) })
    }

    /// Returns the bytes of the image.
    pub fn get(&self) -> &[u8] {
        self.0
    }
}
