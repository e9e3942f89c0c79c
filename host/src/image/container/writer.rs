//! Writing an OffloadBinary, version 1.

use super::offload_binary::ALIGNMENT;
use super::{ImageKind, OffloadKind};

/// An image to write into an OffloadBinary. LLVM: `OffloadBinary::OffloadingImage`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OffloadImage<'a> {
    /// The kind of the image.
    pub image_kind: ImageKind,
    /// The runtime that the image is for.
    pub offload_kind: OffloadKind,
    /// The target triple: "nvptx64-nvidia-cuda".
    pub triple: &'a str,
    /// The architecture: "sm_90".
    pub arch: &'a str,
    /// The bytes of the image.
    pub bytes: &'a [u8],
}

impl<'a> OffloadImage<'a> {
    /// Creates an image without kind, runtime, triple and architecture.
    pub const fn new(bytes: &'a [u8]) -> OffloadImage<'a> {
        let (image_kind, offload_kind) = (ImageKind::None, OffloadKind::None);
        OffloadImage { image_kind, offload_kind, triple: "", arch: "", bytes }
    }

    /// Returns the image with [`OffloadImage::image_kind`] set.
    #[must_use]
    pub const fn with_image_kind(mut self, kind: ImageKind) -> OffloadImage<'a> {
        self.image_kind = kind;
        self
    }

    /// Returns the image with [`OffloadImage::offload_kind`] set.
    #[must_use]
    pub const fn with_offload_kind(mut self, kind: OffloadKind) -> OffloadImage<'a> {
        self.offload_kind = kind;
        self
    }

    /// Returns the image with [`OffloadImage::triple`] set.
    #[must_use]
    pub const fn with_triple(mut self, triple: &'a str) -> OffloadImage<'a> {
        self.triple = triple;
        self
    }

    /// Returns the image with [`OffloadImage::arch`] set.
    #[must_use]
    pub const fn with_arch(mut self, arch: &'a str) -> OffloadImage<'a> {
        self.arch = arch;
        self
    }
}

/// Returns OffloadBinaries of version 1, one for each image, one after the other.
/// `clang-offload-packager` writes this format, and the section `.llvm.offloading` holds it. Sizes,
/// and offsets of images, are multiples of 8 bytes, padded with zeros. LLVM:
/// `OffloadBinary::write`.
pub fn write_offload_binary(images: &[OffloadImage<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for image in images {
        write_one(image, &mut bytes);
    }
    bytes
}

const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 40;
const STRING_BYTES: usize = 16;

fn write_one(image: &OffloadImage<'_>, into: &mut Vec<u8>) {
    let strings = [("arch", image.arch), ("triple", image.triple)];
    let strings_at = HEADER_BYTES + ENTRY_BYTES;
    let text_at = strings_at + strings.len() * STRING_BYTES;
    let (table, text) = string_table(&strings, text_at);
    let image_at = (text_at + text.len()).next_multiple_of(ALIGNMENT);
    let total = (image_at + image.bytes.len()).next_multiple_of(ALIGNMENT);

    let start = into.len();
    into.extend([0x10, 0xff, 0x10, 0xad]);
    into.extend(1u32.to_le_bytes());
    put(into, [total, HEADER_BYTES, ENTRY_BYTES]);
    into.extend(image.image_kind.number().to_le_bytes());
    into.extend(image.offload_kind.number().to_le_bytes());
    into.extend(0u32.to_le_bytes());
    put(into, [strings_at, strings.len(), image_at, image.bytes.len()]);
    put(into, table);
    into.extend(text);
    into.resize(start + image_at, 0);
    into.extend(image.bytes);
    into.resize(start + total, 0);
}

/// Returns the offsets of names and values, and the text at these offsets.
fn string_table(strings: &[(&str, &str)], text_at: usize) -> (Vec<usize>, Vec<u8>) {
    let (mut offsets, mut text) = (Vec::new(), Vec::new());
    for string in strings.iter().flat_map(|(name, value)| [name, value]) {
        offsets.push(text_at + text.len());
        text.extend(string.bytes().take_while(|byte| *byte != 0));
        text.push(0);
    }
    (offsets, text)
}

fn put(into: &mut Vec<u8>, numbers: impl IntoIterator<Item = usize>) {
    into.extend(numbers.into_iter().flat_map(|number| (number as u64).to_le_bytes()));
}
