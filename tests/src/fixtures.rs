//! The images that the behaviours load, by name and by what a device accepts.

use longshore::{Acceptance, Device, Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Images by name: several of a name, one for each kind of device. A device gets the first that
/// it accepts. Cloning is cheap.
#[derive(Clone)]
pub struct Fixtures {
    images: Arc<BTreeMap<String, Vec<Arc<[u8]>>>>,
}

macro_rules! images {
    ($extension:literal: $($image:literal),*) => {
        [$((
            $image,
            include_bytes!(concat!(env!("OUT_DIR"), "/", $image, $extension)) as &[u8],
        )),*]
    };
}

const FOR_THE_CPU: [(&str, &[u8]); 6] =
    images!(".so": "basic", "clash", "life", "failing", "stillborn", "undefined");
const FOR_THE_SAMPLE: [(&str, &[u8]); 7] =
    images!(".ops": "basic", "clash", "life", "failing", "stillborn", "undefined", "faulty");

impl Fixtures {
    /// The images that come with the suite: shared objects for the CPU that it was built for, and
    /// text for the sample plugin in C.
    pub fn built_in() -> Fixtures {
        let mut images: BTreeMap<String, Vec<Arc<[u8]>>> = BTreeMap::new();
        for (name, bytes) in FOR_THE_CPU.into_iter().chain(FOR_THE_SAMPLE) {
            images.entry(name.to_owned()).or_default().push(bytes.into());
        }
        Fixtures { images: Arc::new(images) }
    }

    /// The same with the images of a folder before them: each file is the image of its name up to
    /// the first dot. Blocks.
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
            images.entry(name).or_default().insert(0, bytes.into());
        }
        Ok(Fixtures { images: Arc::new(images) })
    }

    /// The first image of this name that the device accepts, if there is one.
    ///
    /// # Errors
    /// Those of [`Device::accepts`].
    pub fn image(&self, device: &Device, name: &str) -> Result<Option<Arc<[u8]>>> {
        for image in self.images.get(name).into_iter().flatten() {
            if device.accepts(image)? == Acceptance::Accepted {
                return Ok(Some(Arc::clone(image)));
            }
        }
        Ok(None)
    }
}

/// Names and contents of the files, sorted.
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
