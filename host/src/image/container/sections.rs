//! ELF files for a CPU with device images in sections. `.llvm.offloading` holds OffloadBinaries,
//! `.hip_fatbin` offload bundles. Objects of clang-offload-bundler have one section for each image,
//! named `__CLANG_OFFLOAD_BUNDLE__` and the entry's id.

use super::{Opening, bundle, is_pure_container};
use crate::image::Image;
use longshore_plugin_api::Result;
use object::{Object as _, ObjectSection as _};

const BUNDLE_SECTION: &str = "__CLANG_OFFLOAD_BUNDLE__";

/// Adds the images in such sections of an ELF file. Returns false for a file without such images,
/// and for a damaged file: the file is then no container, and the plugin reports the damage.
pub(super) fn read(opening: &mut Opening, image: &Image, depth: usize) -> Result<bool> {
    if !image.bytes().as_ptr().addr().is_multiple_of(8) {
        opening.make(image.bytes().len())?;
    }
    let image = image.clone().aligned();
    let Ok(file) = object::File::parse(image.bytes()) else { return Ok(false) };
    let mut found = false;
    for section in file.sections() {
        let (Ok(name), Some(range)) = (section.name(), section.file_range()) else { continue };
        let Some(content) = part(&image, range) else { continue };
        match name {
            ".llvm.offloading" | ".hip_fatbin" if is_pure_container(&content) => {
                opening.see()?;
                found |= opening.open(&content, depth)?;
            }
            _ => {
                let Some(id) = name.strip_prefix(BUNDLE_SECTION) else { continue };
                let entry = bundle::entry_of_id(content, id);
                opening.add(entry, depth)?;
                found = true;
            }
        }
    }
    Ok(found)
}

fn part(image: &Image, (start, bytes): (u64, u64)) -> Option<Image> {
    let start = usize::try_from(start).ok()?;
    image.part(start..start.checked_add(usize::try_from(bytes).ok()?)?)
}
