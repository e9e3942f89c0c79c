//! Device images: their bytes in managed storage, and their formats.

mod bitcode;
mod container;
mod file;
mod format;

pub(crate) use bitcode::BitcodeHeader;
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

/// The bytes of a device image, in storage that the image owns. Conversion from a borrowed slice
/// copies; conversion from an owned or mapped buffer does not. An image of a container shares the
/// container's storage. Cloning is cheap, and any thread may call the methods. LLVM: `MemoryBuffer`
/// of a `DeviceImageTy`.
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
    /// The image's part of the storage.
    range: Range<usize>,
}

#[derive(Clone)]
enum Storage {
    Buffer(Arc<Vec<u8>>),
    Mapped(Arc<Mmap>),
}

impl Image {
    /// Reads an image from a file, or from a pipe until its writers close it. Blocks.
    ///
    /// # Errors
    /// `NotFound` if the file does not exist. `HostIo` if the file cannot be read, or is a folder,
    /// a device, or a FIFO that no process writes to. `OutOfResources` if the file is larger than
    /// [`Image::MOST_BYTES`].
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

    /// Returns the image's bytes.
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.storage {
            Storage::Buffer(bytes) => &bytes[..],
            Storage::Mapped(map) => map,
        };
        &all[self.range.clone()]
    }

    /// Returns the image's format, recognised by its bytes; [`Format::Unknown`] for any other
    /// bytes.
    pub fn format(&self) -> Format {
        Format::recognize(self.bytes())
    }

    /// Returns a part of the image, in the same storage; `None` for a range beyond the image.
    fn part(&self, range: Range<usize>) -> Option<Image> {
        let is_within = range.start <= range.end && range.end <= self.range.len();
        let start = self.range.start;
        is_within.then(|| Image {
            storage: self.storage.clone(),
            range: start + range.start..start + range.end,
        })
    }

    /// Returns the image at an address aligned for the structures in it: the image itself, or a
    /// copy.
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
        Image::from(Arc::new(bytes))
    }
}

/// Shares the buffer.
impl From<Arc<Vec<u8>>> for Image {
    fn from(bytes: Arc<Vec<u8>>) -> Image {
        let range = 0..bytes.len();
        Image { storage: Storage::Buffer(bytes), range }
    }
}

/// Takes the mapping without a copy. The mapping's creator has promised that the file does not
/// change while mapped.
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
