//! Images that the behaviours load, by name and format.

use longshore::{Acceptance, Device, Error, ErrorCode, Format, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Images by name. A name has several images, one for each kind of device; a device gets the first
/// that it accepts. Cloning is cheap.
#[derive(Clone)]
pub struct Fixtures {
    images: Arc<BTreeMap<String, Vec<Fixture>>>,
}

/// An image of a [`Fixtures`].
#[derive(Clone)]
struct Fixture {
    /// The name of the format in plugins' lists of formats.
    format: &'static str,
    bytes: Arc<[u8]>,
}

/// Format, name and bytes of each built-in image, from the build script.
const BUILT_IN: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/images.rs"));

impl Fixtures {
    /// Returns the built-in images: shared objects for the CPU of the build, text for the sample
    /// plugin in C, SPIR-V and WGSL for Vulkan, PTX, and AMD's code objects. SPIR-V, PTX and code
    /// objects need tools at build time, and are missing without them.
    pub fn built_in() -> Fixtures {
        Fixtures::in_formats(|format| !["cubin", "bitcode"].contains(&format))
    }

    /// Returns the built-in images in WGSL.
    pub fn wgsl() -> Fixtures {
        Fixtures::in_formats(|format| format == "wgsl")
    }

    /// Returns machine code for sm_90 of the built-in PTX images; nothing if NVIDIA's assembler was
    /// missing at build time.
    pub fn cubins() -> Fixtures {
        Fixtures::in_formats(|format| format == "cubin")
    }

    /// Returns LLVM bitcode for the CPU of the build; nothing if clang was missing at build time.
    pub fn bitcode() -> Fixtures {
        Fixtures::in_formats(|format| format == "bitcode")
    }

    fn in_formats(is_wanted: fn(&str) -> bool) -> Fixtures {
        let mut images = BTreeMap::<_, Vec<_>>::new();
        for (format, name, bytes) in BUILT_IN.iter().filter(|(format, ..)| is_wanted(format)) {
            let fixture = Fixture { format, bytes: (*bytes).into() };
            images.entry((*name).to_owned()).or_default().push(fixture);
        }
        Fixtures { images: Arc::new(images) }
    }

    /// Puts the images of a folder before these. The name of a file's image is the part before the
    /// first dot. Blocks.
    ///
    /// # Errors
    /// `HostIo` if the folder or a file cannot be read.
    pub fn with_folder(self, folder: impl AsRef<Path>) -> Result<Fixtures> {
        let folder = folder.as_ref();
        let files = read_folder(folder).map_err(|error| {
            let message = format!("cannot read the images in '{}': {error}", folder.display());
            Error::new(ErrorCode::HostIo, message)
        })?;
        let mut images = Arc::unwrap_or_clone(self.images);
        for (name, bytes) in files {
            let fixture = Fixture { format: Format::recognize(&bytes).name(), bytes: bytes.into() };
            images.entry(name).or_default().insert(0, fixture);
        }
        Ok(Fixtures { images: Arc::new(images) })
    }

    /// Returns the first image of this name that the device loads, if any.
    ///
    /// # Errors
    /// Errors of [`Device::suits`].
    pub fn image(&self, device: &Device, name: &str) -> Result<Option<Arc<[u8]>>> {
        for image in self.named(name) {
            if device.suits(&image.bytes)?.is_accepted() {
                return Ok(Some(Arc::clone(&image.bytes)));
            }
        }
        Ok(None)
    }

    /// Returns the formats of the images that the device loads, sorted.
    ///
    /// # Errors
    /// Errors of [`Device::suits`].
    pub fn formats(&self, device: &Device) -> Result<Vec<&'static str>> {
        let mut formats = BTreeSet::new();
        for image in self.images.values().flatten() {
            if !formats.contains(image.format) && device.suits(&image.bytes)?.is_accepted() {
                formats.insert(image.format);
            }
        }
        Ok(formats.into_iter().collect())
    }

    /// Returns the device's reasons to refuse the images of this name in one of `formats`, the
    /// comma-separated list of its plugin.
    ///
    /// # Errors
    /// Errors of [`Device::accepts`].
    pub fn refusals(&self, device: &Device, name: &str, formats: &str) -> Result<Vec<String>> {
        let is_for_it = |image: &&Fixture| formats.split(',').any(|name| name == image.format);
        let mut refusals = Vec::new();
        for image in self.named(name).filter(is_for_it) {
            if let Acceptance::Refused(why) = device.accepts(&image.bytes)? {
                refusals.push(format!("{}: {why}", image.format));
            }
        }
        Ok(refusals)
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Fixture> {
        self.images.get(name).into_iter().flatten()
    }
}

/// Returns names and contents of the files, sorted by name.
fn read_folder(folder: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let name = file_name.to_string_lossy();
        let name = name.split('.').next().unwrap_or_default();
        if entry.path().is_file() && !name.is_empty() {
            files.insert(name.to_owned(), std::fs::read(entry.path())?);
        }
    }
    Ok(files)
}
