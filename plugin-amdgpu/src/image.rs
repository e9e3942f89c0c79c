//! Scores of images for a device.

use longshore_format_amdgpu::{CodeObject, Feature, Header, Malformed, Target, is_triple};
use longshore_plugin_api::{CodeTarget, ImageEntry, is_bitcode};

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

/// Returns the score of an image of a container. Bitcode counts as a relocatable image.
pub(crate) fn score(entry: &ImageEntry<'_>, device: &Target) -> u32 {
    let is_for_us = entry.triple.is_empty() || is_triple(entry.triple);
    let target = Target::parse(entry.arch);
    let fit = target.ok().and_then(|target| target.runs_on(device).ok());
    let is_known = entry.arch.is_empty() || fit.is_some();
    match is_for_us && is_known {
        true if is_bitcode(entry.bytes) => fit.map_or(1, |fit| fit.score()),
        true => suitability(entry.bytes, device).unwrap_or(0),
        false => 0,
    }
}

/// Returns the target for which LLVM compiles code for a device.
pub(crate) fn code_target(device: &Target) -> CodeTarget {
    let features = [("sramecc", device.sramecc), ("xnack", device.xnack)];
    let features = features.into_iter().filter_map(|(name, feature)| match feature {
        Feature::Any => None,
        Feature::On => Some(format!("+{name}")),
        Feature::Off => Some(format!("-{name}")),
    });
    CodeTarget {
        triple: "amdgcn-amd-amdhsa".to_owned(),
        processor: device.processor.clone(),
        features: features.collect::<Vec<_>>().join(","),
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
    fn bitcode_counts_as_a_relocatable_image() {
        let device = Target::parse("gfx942:sramecc+:xnack-").unwrap();
        let score =
            |bytes: &[u8], arch| score(&ImageEntry::new(bytes, "amdgcn-amd-amdhsa", arch), &device);
        let bitcode = |arch| score(b"BC\xc0\xde", arch);
        assert!(bitcode("") > 0 && bitcode("gfx942") > bitcode(""));
        assert!(score(&head(), "gfx942") > bitcode("gfx942"));
        assert_eq!([bitcode("gfx90a"), bitcode("gfx942:xnack+")], [0, 0]);
        assert_eq!(code_target(&device).features, "+sramecc,-xnack");
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
