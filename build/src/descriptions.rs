//! The descriptions of kernels in images.

use crate::error::Error;
use longshore_cc::{ImageKind, TargetImage};
use longshore_plugin_api::{KERNEL_DESCRIPTION_PREFIX, KernelDescription};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// A kernel by its symbol, and its description.
pub(crate) type Described = (String, KernelDescription);

/// Returns the kernels of the first image with descriptions, by name; none if no image has them in
/// an ELF file.
pub(crate) fn image_descriptions(images: &[TargetImage]) -> Result<Vec<Described>, Error> {
    for image in images.iter().filter(|image| image.kind == ImageKind::Object) {
        let found = descriptions_in(&image.bytes)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn descriptions_in(bytes: &[u8]) -> Result<Vec<Described>, Error> {
    let file = ElfFile64::<Endianness>::parse(bytes)
        .map_err(|error| Error::new(format!("the compiled image is not readable: {error}")))?;
    let symbols = match file.symbols().next() {
        Some(_) => file.symbols(),
        None => file.dynamic_symbols(),
    };
    let mut found = Vec::new();
    for symbol in symbols.filter(|symbol| symbol.is_definition()) {
        let name = symbol.name().unwrap_or_default();
        let Some(kernel) = name.strip_prefix(KERNEL_DESCRIPTION_PREFIX) else { continue };
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let content = section.and_then(|section| {
            let at = symbol.address().checked_sub(section.address())?;
            section.data().ok()?.get(usize::try_from(at).ok()?..)
        });
        let described = KernelDescription::parse(content.unwrap_or_default())
            .map_err(|error| Error::new(format!("kernel '{kernel}': {error}")))?;
        found.push((kernel.to_owned(), described));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found.dedup_by(|one, other| one.0 == other.0);
    Ok(found)
}
