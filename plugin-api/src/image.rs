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

/// The target for which the host compiles LLVM bitcode, in LLVM's terms: the answer of
/// [`Device::code_target`](crate::Device::code_target).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CodeTarget {
    /// Target triple: "x86_64-unknown-linux-gnu", "nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa".
    pub triple: String,
    /// Processor, as LLVM's option `-mcpu` takes it: "x86-64-v3", "sm_90", "gfx942".
    pub processor: String,
    /// Features on top of the processor's, as LLVM's option `-mattr` takes them: "+avx2,-sse4a",
    /// "+ptx86", "+xnack". May be empty.
    pub features: String,
}

impl CodeTarget {
    /// Returns whether code for `triple` is code for this target: both have the same architecture,
    /// and the same operating system unless one of them is unknown. An empty triple fits.
    pub fn fits_triple(&self, triple: &str) -> bool {
        let [(ours, our_system), (theirs, their_system)] =
            [self.triple.as_str(), triple].map(parts_of_triple);
        let is_unknown = |system: &str| matches!(system, "" | "unknown" | "none");
        theirs.is_empty()
            || ours == theirs
                && (is_unknown(our_system)
                    || is_unknown(their_system)
                    || our_system == their_system)
    }
}

/// Returns architecture and operating system of a triple, in LLVM's usual spelling.
fn parts_of_triple(triple: &str) -> (&str, &str) {
    let mut parts = triple.split('-');
    let architecture = match parts.next().unwrap_or_default() {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        "amdgpu" => "amdgcn",
        other => other,
    };
    (architecture, parts.nth(1).unwrap_or_default())
}

/// Returns whether an image is LLVM bitcode, alone or in LLVM's wrapper for it.
pub fn is_bitcode(image: &[u8]) -> bool {
    image.starts_with(b"BC\xc0\xde") || image.starts_with(&[0xde, 0xc0, 0x17, 0x0b])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triple_fits_by_architecture_and_known_operating_system() {
        let target =
            |triple: &str| CodeTarget { triple: triple.to_owned(), ..CodeTarget::default() };
        let cpu = target("x86_64-unknown-linux-gnu");
        for triple in ["", "x86_64-pc-linux-gnu", "amd64-linux", "x86_64-unknown-unknown", "x86_64"]
        {
            assert!(cpu.fits_triple(triple), "{triple}");
        }
        for triple in ["aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc", "nvptx64-nvidia-cuda"]
        {
            assert!(!cpu.fits_triple(triple), "{triple}");
        }
        assert!(target("amdgcn-amd-amdhsa").fits_triple("amdgcn-amd-amdhsa--"));
        assert!(!target("amdgcn-amd-amdhsa").fits_triple("amdgcn-amd-amdpal"));
    }

    #[test]
    fn bitcode_is_known_by_its_magic_number_and_by_that_of_its_wrapper() {
        assert!(is_bitcode(b"BC\xc0\xde") && is_bitcode(b"\xde\xc0\x17\x0b...."));
        assert!(!is_bitcode(b"BC\xc0") && !is_bitcode(b"") && !is_bitcode(b"\x0b\x17\xc0\xde"));
    }
}
