//! Image bytes on their way to the plugin.

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use longshore_plugin_api::{Error, ErrorCode, Result};
use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use sha2::{Digest as _, Sha256};

use crate::plugin::protocol::{Digest, Id, Image};

/// An image's bytes, which stay in place until the buffer is dropped.
pub(super) enum ImageBuffer {
    Owned(Vec<u8>),
    Kept(Arc<Vec<u8>>),
    Mapped(Mapping),
}

/// Pages of the shared file, mapped for reading. The host does not write to them while they hold an
/// image.
pub(super) struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the memory is only read.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

/// Incomplete uploads of images.
#[derive(Default)]
pub(super) struct Uploads {
    all: Mutex<HashMap<Id, Upload>>,
}

struct Upload {
    content: Vec<u8>,
    bytes: usize,
}

/// Images that a process keeps by content, for all its plugins and for repeated loads. Images that
/// no module uses are dropped, the oldest first, beyond [`Images::MOST_UNUSED`] bytes.
#[derive(Default)]
pub struct Images {
    all: Mutex<Vec<(Digest, Arc<Vec<u8>>)>>,
}

impl Images {
    /// Greatest number of bytes of images that no module uses.
    pub const MOST_UNUSED: usize = 256 << 20;

    /// Keeps an image. Does not block for long.
    ///
    /// # Errors
    /// `InvalidArgument` if the content has another digest.
    pub fn keep(&self, digest: Digest, content: Vec<u8>) -> Result<()> {
        if digest != Self::digest(&content) {
            return Err(wrong(format!("an image of {} bytes arrived damaged", content.len())));
        }
        let mut all = self.all.lock();
        if all.iter().any(|(known, _)| *known == digest) {
            return Ok(());
        }
        all.push((digest, Arc::new(content)));
        let is_unused = |image: &Arc<Vec<u8>>| Arc::strong_count(image) == 1;
        let unused = all.iter().filter(|(_, image)| is_unused(image));
        let mut surplus = unused.map(|(_, image)| image.len()).sum::<usize>();
        let newest = all.len() - 1;
        let mut index = 0;
        all.retain(|(_, image)| {
            let goes = surplus > Self::MOST_UNUSED && index != newest && is_unused(image);
            surplus -= if goes { image.len() } else { 0 };
            index += 1;
            !goes
        });
        Ok(())
    }

    /// Returns a kept image.
    pub fn get(&self, digest: &Digest) -> Option<Arc<Vec<u8>>> {
        let all = self.all.lock();
        all.iter().find(|(known, _)| known == digest).map(|(_, image)| Arc::clone(image))
    }

    /// Returns the digest of an image.
    pub fn digest(content: &[u8]) -> Digest {
        Sha256::digest(content).into()
    }
}

impl ImageBuffer {
    /// Returns the bytes of an image.
    ///
    /// # Errors
    /// `InvalidArgument` for an image that was not sent, `OutOfResources` if it cannot be mapped.
    pub(super) fn new(
        image: Image<'_>,
        uploads: &Uploads,
        file: Option<BorrowedFd<'_>>,
        images: Option<&Images>,
    ) -> Result<Self> {
        match (image, file) {
            (Image::Here(content), _) => Ok(Self::Owned(content.to_vec())),
            (Image::Uploaded(id), _) => uploads.finish(id).map(Self::Owned),
            (Image::Shared { offset, bytes }, Some(file)) => {
                Mapping::new(file, offset, bytes).map(Self::Mapped)
            }
            (Image::Kept(digest), _) => {
                let kept = images.and_then(|images| images.get(&digest));
                kept.map(Self::Kept)
                    .ok_or_else(|| Error::new(ErrorCode::NotFound, "the image is not kept here"))
            }
            (Image::Shared { .. }, None) => Err(wrong("no memory is shared".to_owned())),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(content) => content,
            Self::Kept(content) => content,
            Self::Mapped(mapping) => mapping.bytes(),
        }
    }
}

impl Mapping {
    fn new(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<Self> {
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| wrong("an empty image in shared memory".to_owned()))?;
        // SAFETY: the kernel chooses the address, so the mapping replaces no other.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, offset)
        };
        let start = start.map_err(|error| {
            let message = format!("mapping an image of {bytes} bytes: {error}");
            Error::new(ErrorCode::OutOfResources, message)
        })?;
        Ok(Self { start: NonNull::new(start).expect("no mapping is at null"), bytes })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped until this is dropped. The file is sealed against shrinking, and the host
        // does not change the bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

impl Uploads {
    /// Begins an upload.
    pub(super) fn begin(&self, bytes: u64) -> Result<Id> {
        let bytes =
            usize::try_from(bytes).map_err(|_| wrong(format!("an image of {bytes} bytes")))?;
        let mut all = self.all.lock();
        let id = all.keys().max().map_or(1, |last| last + 1);
        all.insert(id, Upload { content: Vec::new(), bytes });
        Ok(id)
    }

    /// Appends bytes to an upload. Memory is allocated as they arrive, not as announced.
    pub(super) fn add(&self, id: Id, content: &[u8]) -> Result<()> {
        let mut all = self.all.lock();
        let upload = all.get_mut(&id).ok_or_else(|| absent(id))?;
        if content.len() > upload.bytes - upload.content.len() {
            all.remove(&id);
            return Err(wrong(format!("upload {id} has more bytes than were announced")));
        }
        upload.content.extend_from_slice(content);
        Ok(())
    }

    fn finish(&self, id: Id) -> Result<Vec<u8>> {
        let Upload { content, bytes } = self.all.lock().remove(&id).ok_or_else(|| absent(id))?;
        if content.len() == bytes {
            return Ok(content);
        }
        Err(wrong(format!("upload {id} has {} of {bytes} bytes", content.len())))
    }
}

fn absent(id: Id) -> Error {
    wrong(format!("there is no upload {id}"))
}

fn wrong(message: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_whole_or_refused() {
        let uploads = Uploads::default();
        let id = uploads.begin(5).unwrap();
        uploads.add(id, b"abc").unwrap();
        uploads.add(id, b"de").unwrap();
        let image = ImageBuffer::new(Image::Uploaded(id), &uploads, None, None).unwrap();
        assert_eq!(image.bytes(), b"abcde");
        assert!(ImageBuffer::new(Image::Uploaded(id), &uploads, None, None).is_err());
        let short = uploads.begin(5).unwrap();
        uploads.add(short, b"abc").unwrap();
        assert!(ImageBuffer::new(Image::Uploaded(short), &uploads, None, None).is_err());
        let long = uploads.begin(2).unwrap();
        assert!(uploads.add(long, b"abc").is_err() && uploads.add(long, b"a").is_err());
    }
}
