//! Scores of images for a device.

use longshore_format_amdgpu::{CodeObject, Header, Malformed, Target, is_triple};
use longshore_plugin_api::ImageEntry;

/// Bonus for a linked image over a relocatable one that suits the device equally.
const LINKED: u32 = 100;

/// Returns the score of an image for a device, at least 1.
///
/// # Errors
/// The reason why the device does not run the image, as text for the user.
pub(crate) fn suitability(image: &[u8], device: &Target) -> Result<u32, String> {
    let malformed = |malformed: Malformed| malformed.to_string();
    let mut header = Header::read(image).map_err(malformed)?;
    if Target::parse(&header.target.processor).is_err() {
        // A later processor, whose name is in the metadata.
        header = CodeObject::read(image).map_err(malformed)?.header;
    }
    if !header.is_supported() {
        let version = header.version;
        return Err(format!("the code object is of version {version}, expected 4, 5 or 6"));
    }
    let fit = header.target.runs_on(device).map_err(|not_for| not_for.to_string())?;
    Ok(fit.score() + if header.is_relocatable { 0 } else { LINKED })
}

/// Returns the score of an image of a container.
pub(crate) fn score(entry: &ImageEntry<'_>, device: &Target) -> u32 {
    let is_for_us = entry.triple.is_empty() || is_triple(entry.triple);
    let is_known = entry.arch.is_empty()
        || Target::parse(entry.arch).is_ok_and(|target| target.runs_on(device).is_ok());
    match is_for_us && is_known {
        true => suitability(entry.bytes, device).unwrap_or(0),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header of a linked code object of version 6 for gfx942.
    fn head() -> [u8; 64] {
        let mut head = [0; 64];
        head[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x04");
        (head[16], head[18], head[48]) = (3, 224, 0x4c);
        head
    }

    #[test]
    fn entries_are_scored_only_for_triples_of_compilers() {
        let device = Target::parse("gfx942:sramecc+:xnack-").unwrap();
        let score = |triple| score(&ImageEntry::new(&head(), triple, "gfx942"), &device);
        for triple in
            ["", "amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa--", "amdgpu9.4-amd-amdhsa-unknown"]
        {
            assert!(score(triple) > 0, "{triple}");
        }
        for triple in ["amdgcn-amd-amdpal", "spirv64-amd-amdhsa", "nvptx64-nvidia-cuda", "x"] {
            assert_eq!(score(triple), 0, "{triple}");
        }
    }
}
