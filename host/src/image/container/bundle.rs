//! clang's offload bundle: a list of entries, each with an id `KIND-TRIPLE-TARGET` and the offset
//! and size of its image. Programs hold several bundles, one after the other, and some of them
//! compressed.

use super::fields::Fields;
use super::{ContainerEntry, ImageKind, OffloadKind, Opening, compression, invalid};
use crate::image::{Format, Image};
use longshore_plugin_api::{Error, Result};

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// The kinds at the beginning of ids. "hipv4" is HIP since version 4 of its code objects.
const KINDS: [(&str, OffloadKind); 6] = [
    ("host", OffloadKind::Host),
    ("openmp", OffloadKind::OpenMp),
    ("cuda", OffloadKind::Cuda),
    ("hip", OffloadKind::Hip),
    ("hipv4", OffloadKind::Hip),
    ("sycl", OffloadKind::Sycl),
];

/// Adds the entries of all bundles in `image`.
pub(super) fn read(opening: &mut Opening, image: &Image, depth: usize) -> Result<()> {
    let bytes = image.bytes().len();
    let mut start = 0;
    while let Some(rest) = next(image, start) {
        start = bytes - rest.bytes().len();
        let at_start =
            |error: Error| error.context(format_args!("the offload bundle at offset {start}"));
        let end = match rest.format() {
            Format::CompressedOffloadBundle => compressed(opening, &rest, depth),
            _ => read_one(opening, &rest, depth),
        };
        start += end.map_err(at_start)?;
    }
    Ok(())
}

/// Returns the rest of the image from the next bundle on. Only zero bytes lie between bundles.
fn next(image: &Image, start: usize) -> Option<Image> {
    let gap = image.bytes().get(start..)?.iter().position(|byte| *byte != 0)?;
    let rest = image.part(start + gap..image.bytes().len())?;
    let is_bundle =
        matches!(rest.format(), Format::OffloadBundle | Format::CompressedOffloadBundle);
    is_bundle.then_some(rest)
}

/// Adds the entries of the bundle at the start of `image`, and returns the offset of the bundle's
/// end.
fn read_one(opening: &mut Opening, image: &Image, depth: usize) -> Result<usize> {
    let fields = Fields(image.bytes());
    let mut at = MAGIC.len() as u64;
    let count = fields.u64(at).ok_or_else(|| invalid("its header is cut off".to_owned()))?;
    at += 8;
    let mut end = at as usize;
    for index in 0..count {
        let (entry, next) = entry(image, at).ok_or_else(|| {
            let bytes = image.bytes().len();
            invalid(format!("entry {index} lies beyond the bundle's {bytes} bytes"))
        })?;
        at = next;
        let image_end = entry.image.range.end - image.range.start;
        end = end.max(image_end).max(at as usize);
        opening.add(entry, depth)?;
    }
    Ok(end)
}

/// Returns the entry described at an offset, and the offset of the description's end.
fn entry(image: &Image, at: u64) -> Option<(ContainerEntry, u64)> {
    let fields = Fields(image.bytes());
    let id_bytes = fields.u64(at.checked_add(16)?)?;
    let (start, bytes) = (fields.u64(at)?, fields.u64(at + 8)?);
    let id = fields.text(at + 24, id_bytes)?;
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(bytes).ok()?)?;
    Some((entry_of_id(image.part(start..end)?, &id), at + 24 + id_bytes))
}

/// Returns an entry with the properties in its id: "hip-amdgcn-amd-amdhsa--gfx90a:xnack+". The
/// triple has four parts. The last part may be empty; earlier versions of clang omit it before the
/// name of a GPU.
pub(super) fn entry_of_id(image: Image, id: &str) -> ContainerEntry {
    let mut parts = id.splitn(6, '-');
    let kind = parts.next().unwrap_or_default();
    let parts: Vec<_> = parts.collect();
    let is_gpu = |part: &&str| part.starts_with("gfx") || part.starts_with("sm_");
    let triple_parts = if parts.get(3).is_some_and(is_gpu) { 3 } else { 4.min(parts.len()) };
    let (triple, target) = parts.split_at(triple_parts.min(parts.len()));
    let named = KINDS.iter().find(|(name, _)| *name == kind);
    let offload_kind = named.map_or(OffloadKind::None, |(_, kind)| *kind);
    ContainerEntry {
        image,
        offload_kind,
        image_kind: ImageKind::None,
        flags: 0,
        triple: triple.join("-").trim_end_matches('-').to_owned(),
        arch: target.join("-"),
        properties: Vec::new(),
    }
}

/// Adds the entries of the compressed bundle at the start of `image`, and returns the offset of the
/// bundle's end.
fn compressed(opening: &mut Opening, image: &Image, depth: usize) -> Result<usize> {
    let (inflated, end) = compression::inflate_bundle(opening, image.bytes())?;
    let inflated = Image::from(inflated);
    if inflated.format() != Format::OffloadBundle {
        return Err(invalid("its decompressed data is no offload bundle".to_owned()));
    }
    read_one(opening, &inflated, depth)?;
    Ok(end)
}
