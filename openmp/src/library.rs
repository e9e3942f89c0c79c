//! A registered executable or shared object: its entries and its device images.

use crate::abi::BinaryDescriptor;
use crate::entries::{self, Entry, EntryKind};
use crate::gpu::GpuImage;
use longshore::{Image, Program};

/// A registered descriptor. LLVM: `__tgt_bin_desc`, `TranslationTable`.
pub(crate) struct Library {
    /// Address of the descriptor, which identifies the library.
    pub(crate) descriptor: usize,
    pub(crate) entries: Vec<Entry>,
    /// Whether clang 20 or a later version has compiled the library.
    pub(crate) is_recent: bool,
    /// First byte and size of each image.
    images: Vec<(*const u8, usize)>,
}

// SAFETY: the images are constants of the program, which live until the library is unregistered.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// A library's image that is loaded on a device.
pub(crate) struct Loaded {
    /// Address of the library's descriptor.
    pub(crate) descriptor: usize,
    /// The program; `None` if the device accepts no image of the library.
    pub(crate) program: Option<Program>,
    /// Host addresses of the library's mapped variables and functions.
    pub(crate) mapped: Vec<u64>,
    /// State of the image on a GPU.
    pub(crate) gpu: Option<GpuImage>,
    /// Kernels that clang 16 and older want to be called before unloading.
    pub(crate) destructors: Vec<String>,
}

impl Library {
    /// Reads a descriptor.
    ///
    /// # Safety
    /// The descriptor and all it points at are readable until the library is unregistered.
    pub(crate) unsafe fn read(descriptor: *const BinaryDescriptor) -> Library {
        // SAFETY: promised by the caller.
        let (binary, entries, is_recent) = unsafe {
            let binary = &*descriptor;
            let (begin, end) = (binary.entries_begin, binary.entries_end);
            (binary, entries::read(begin, end), entries::are_new(begin, end))
        };
        let images = (0..binary.image_count.max(0) as usize).map(|index| {
            // SAFETY: as above.
            let image = unsafe { &*binary.images.add(index) };
            (image.start, (image.end as usize).saturating_sub(image.start as usize))
        });
        Library { descriptor: descriptor as usize, entries, is_recent, images: images.collect() }
    }

    /// Returns the flags of all `requires` directives.
    pub(crate) fn requirements(&self) -> impl Iterator<Item = i64> {
        let requires = self.entries.iter().filter(|entry| entry.kind == EntryKind::Requires);
        requires.map(|entry| entry.data)
    }

    /// Returns the bytes of each image.
    pub(crate) fn images(&self) -> impl Iterator<Item = &[u8]> {
        self.images.iter().filter(|(start, bytes)| !start.is_null() && *bytes > 0).map(
            // SAFETY: the images are constants that live as long as the library is registered.
            |(start, bytes)| unsafe { std::slice::from_raw_parts(*start, *bytes) },
        )
    }

    /// Returns the images in storage of their own.
    pub(crate) fn owned_images(&self) -> impl Iterator<Item = Image> {
        self.images().map(Image::from)
    }
}
