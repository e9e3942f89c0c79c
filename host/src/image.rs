//! Device images: the bytes, in managed storage, and what they are.

mod container;
mod file;
mod format;

pub use container::{ContainerEntry, ImageKind, OffloadImage, OffloadKind, write_offload_binary};
#[doc(hidden)]
pub use file::{WholeFile, read_at_most};
pub use format::Format;

use longshore_plugin_api::{Error, ErrorCode, Result};
use memmap2::Mmap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a device image in storage of its own. A borrowed slice is copied; an owned or
/// mapped buffer is taken over without a copy. An image out of a container shares the container's
/// storage. Cloning is cheap. LLVM: `MemoryBuffer` of a `DeviceImageTy`.
///
/// ```
/// use longshore::{Format, Image};
///
/// let image = Image::from(b"@compute @workgroup_size(64) fn main() {}");
/// assert_eq!(image.format(), Format::Wgsl);
/// // It is no container.
/// assert!(image.entries()?.is_none());
///
/// let missing = Image::read("missing.img").unwrap_err();
/// assert_eq!(missing.code(), longshore::ErrorCode::NotFound);
/// # Ok::<(), longshore::Error>(())
/// ```
#[derive(Clone)]
pub struct Image {
    storage: Storage,
    /// The part of the storage that the image is.
    range: Range<usize>,
}

#[derive(Clone)]
enum Storage {
    Buffer(Arc<Vec<u8>>),
    Mapped(Arc<Mmap>),
}

impl Image {
    /// Reads a file, or a pipe to its end. Blocks.
    ///
    /// # Errors
    /// `NotFound` if there is no such file; `HostIo` if it cannot be read, or is a folder, a device or
    /// a FIFO that no process writes to; `OutOfResources` if it is larger than [`Image::MOST_BYTES`].
    pub fn read(path: impl AsRef<Path>) -> Result<Image> {
        let path = path.as_ref();
        let bytes = read_at_most(path, Image::MOST_BYTES).map_err(|error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorCode::NotFound,
                std::io::ErrorKind::FileTooLarge | std::io::ErrorKind::OutOfMemory => {
                    ErrorCode::OutOfResources
                }
                _ => ErrorCode::HostIo,
            };
            let message = format!("cannot read the image '{}': {error}", path.display());
            Error::new(code, message).with_source(error)
        })?;
        Ok(Image::from(bytes))
    }

    /// The size of the largest file that [`Image::read`] reads: 4 GiB.
    pub const MOST_BYTES: u64 = 4 << 30;

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.storage {
            Storage::Buffer(bytes) => &bytes[..],
            Storage::Mapped(map) => map,
        };
        &all[self.range.clone()]
    }

    /// What the bytes are, by their first words. Never fails: what is not known is
    /// [`Format::Unknown`].
    pub fn format(&self) -> Format {
        Format::recognize(self.bytes())
    }

    /// Returns a part of the image, in the same storage; `None` if the image does not have it.
    fn part(&self, range: Range<usize>) -> Option<Image> {
        let is_within = range.start <= range.end && range.end <= self.range.len();
        let start = self.range.start;
        is_within.then(|| Image {
            storage: self.storage.clone(),
            range: start + range.start..start + range.end,
        })
    }

    /// Returns the image at an address that the structures in it can be read at: itself, or a copy.
    pub(crate) fn aligned(self) -> Image {
        const ALIGNMENT: usize = 8;
        match self.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT) {
            true => self,
            false => Image::from(self.bytes()),
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} bytes)", self.format(), self.range.len())
    }
}

impl From<&[u8]> for Image {
    fn from(bytes: &[u8]) -> Image {
        Image::from(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Image {
    fn from(bytes: &[u8; N]) -> Image {
        Image::from(&bytes[..])
    }
}

impl From<&Vec<u8>> for Image {
    fn from(bytes: &Vec<u8>) -> Image {
        Image::from(&bytes[..])
    }
}

impl From<Vec<u8>> for Image {
    fn from(bytes: Vec<u8>) -> Image {
        let range = 0..bytes.len();
        Image { storage: Storage::Buffer(Arc::new(bytes)), range }
    }
}

/// Whoever made the map promised that nobody changes the file while it lives.
impl From<Mmap> for Image {
    fn from(map: Mmap) -> Image {
        let range = 0..map.len();
        Image { storage: Storage::Mapped(Arc::new(map)), range }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn a_file_that_cannot_be_read_is_the_source_of_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = Image::read(folder.path().join("gone")).unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotFound);
        let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
        assert_eq!(cause.unwrap().kind(), std::io::ErrorKind::NotFound);
        assert!(error.message().ends_with(&cause.unwrap().to_string()), "{error}");
    }
}
