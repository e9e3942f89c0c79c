//! Which images a device runs, and how well.

use longshore_amd_image::{CodeObject, Header, Malformed, Target};
use longshore_plugin_api::ImageEntry;

/// Of what suits a device alike, what is linked comes before what has to be.
const LINKED: u32 = 100;

/// How well an image suits a device, at least 1.
///
/// # Errors
/// Why the device does not run it, for people.
pub(crate) fn suitability(image: &[u8], device: &Target) -> Result<u32, String> {
    let malformed = |malformed: Malformed| malformed.to_string();
    let mut header = Header::read(image).map_err(malformed)?;
    if Target::parse(&header.target.processor).is_err() {
        // A later one, whose name stands farther behind.
        header = CodeObject::read(image).map_err(malformed)?.header;
    }
    if !header.is_supported() {
        let version = header.version;
        return Err(format!("the code object is of version {version}, expected 4, 5 or 6"));
    }
    let fit = header.target.runs_on(device).map_err(|not_for| not_for.to_string())?;
    Ok(fit.rank() + if header.is_relocatable { 0 } else { LINKED })
}

/// The rank of an image of a container.
pub(crate) fn rank(entry: &ImageEntry<'_>, device: &Target) -> u32 {
    let is_for_us = entry.triple.is_empty() || entry.triple.contains("amdgcn");
    let is_known = entry.arch.is_empty()
        || Target::parse(entry.arch).is_ok_and(|target| target.runs_on(device).is_ok());
    match is_for_us && is_known {
        true => suitability(entry.bytes, device).unwrap_or(0),
        false => 0,
    }
}
