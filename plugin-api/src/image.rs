//! Images as a device is given them, and its answer to one.

/// An image of a container, and what the container says of it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImageEntry<'a> {
    /// The image.
    pub bytes: &'a [u8],
    /// Its target triple, empty if the container has none.
    pub triple: &'a str,
    /// Its architecture, empty if the container has none: "gfx90a:xnack+", "sm_90", "x86-64-v3".
    pub arch: &'a str,
}

impl<'a> ImageEntry<'a> {
    /// Returns an image with the target triple and the architecture of its container, each empty if
    /// the container has none.
    pub const fn new(bytes: &'a [u8], triple: &'a str, arch: &'a str) -> ImageEntry<'a> {
        ImageEntry { bytes, triple, arch }
    }
}

/// Answer of [`Device::accepts`](crate::Device::accepts).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Acceptance {
    /// `load` would try it.
    Accepted,
    /// `load` would try it, and refuses it unless verification shows that loading, constructing and
    /// unloading it is sound whatever its bytes are. Nothing unverified runs then.
    Verified,
    /// `load` would refuse it, for this reason.
    Refused(String),
}

impl Acceptance {
    /// Returns whether `load` would try the image.
    pub fn is_accepted(&self) -> bool {
        !matches!(self, Acceptance::Refused(_))
    }
}

/// The bytes of an image in the host's managed storage. They stay in place, unchanged, until
/// after the module that was made from them was dropped. An implementation of
/// [`Device::load`](crate::Device::load) keeps this value in the module, or drops it.
pub struct ImageBytes(&'static [u8]);

impl ImageBytes {
    /// Vouches for an image.
    ///
    /// # Safety
    /// The bytes must not move, change or go away until the module that is loaded from them was
    /// dropped, or its loading failed.
    pub unsafe fn new(bytes: &[u8]) -> ImageBytes {
        // SAFETY: the caller promises a life as long as the module's, which is as long as `self`
        // lives and as `get` borrows.
        ImageBytes(unsafe { std::mem::transmute::<&[u8], &'static [u8]>(bytes) })
    }

    /// Returns the bytes.
    pub fn get(&self) -> &[u8] {
        self.0
    }
}
