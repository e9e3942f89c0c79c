//! Device images: the bytes, in managed storage, and what they are.

mod format;

pub use format::Format;

use longshore_plugin_api::{Error, ErrorCode, Result};
use memmap2::Mmap;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a device image in storage of its own. A borrowed slice is copied; an owned or
/// mapped buffer is taken over without a copy. LLVM: `MemoryBuffer` of a `DeviceImageTy`.
#[derive(Clone)]
pub struct Image {
    storage: Storage,
}

#[derive(Clone)]
enum Storage {
    Buffer(Arc<Vec<u8>>),
    Mapped(Arc<Mmap>),
}

impl Image {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `HostIo` if it cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Image> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorCode::NotFound,
                _ => ErrorCode::HostIo,
            };
            Error::new(code, format!("cannot read the image '{}': {error}", path.display()))
        })?;
        Ok(Image::from(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Buffer(bytes) => bytes,
            Storage::Mapped(map) => map,
        }
    }

    /// What the bytes are, by their first words. Never fails: what is not known is
    /// [`Format::Unknown`].
    pub fn format(&self) -> Format {
        Format::recognize(self.bytes())
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
        Image { storage: Storage::Buffer(Arc::new(bytes)) }
    }
}

/// Whoever made the map promised that nobody changes the file while it lives.
impl From<Mmap> for Image {
    fn from(map: Mmap) -> Image {
        Image { storage: Storage::Mapped(Arc::new(map)) }
    }
}
