//! LLVM's OffloadBinary: a header, entries with their strings, and the images. A file holds
//! several, one after the other. Version 1 has one entry; version 2 has any number, and strings
//! with sizes; version 3 may be compressed behind its header.

use super::fields::Fields;
use super::{
    ContainerEntry, ImageKind, OffloadKind, Opening, compression, invalid, unknown_version,
};
use crate::image::{Format, Image};
use longshore_plugin_api::{Error, Result};

const NEWEST_VERSION: u32 = 3;
const HEADER_BYTES: u64 = 32;
const ENTRY_BYTES: u64 = 40;
const MOST_STRINGS: u64 = 64;
pub(super) const ALIGNMENT: usize = 8;

/// Adds the entries of all binaries in `image`, which lie at multiples of 8 bytes.
pub(super) fn read(opening: &mut Opening, image: &Image, depth: usize) -> Result<()> {
    let bytes = image.bytes();
    let mut start = 0;
    while let Some(rest) = image.part(start..bytes.len()).filter(|rest| !rest.bytes().is_empty()) {
        if rest.bytes().iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let header = Header::read(rest.bytes()).map_err(|error| at(error, start))?;
        let end = header.bytes.next_multiple_of(ALIGNMENT).min(rest.bytes().len());
        let binary = rest.part(0..header.bytes).expect("the header was checked");
        read_one(opening, &binary, &header, depth).map_err(|error| at(error, start))?;
        start += end;
    }
    Ok(())
}

fn at(error: Error, start: usize) -> Error {
    error.context(format_args!("the OffloadBinary at offset {start}"))
}

/// A checked header.
struct Header {
    version: u32,
    /// Size of the whole binary in bytes: more than the header, and within the file.
    bytes: usize,
    entries_at: u64,
    entries: u64,
    /// Size of the decompressed binary in bytes; 0 for a binary that is not compressed.
    inflated_bytes: u64,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Header> {
        if Format::recognize(bytes) != Format::OffloadBinary {
            return Err(invalid("it does not start with 10 ff 10 ad".to_owned()));
        }
        let fields = Fields(bytes);
        let short = || invalid(format!("its header is cut off after {} bytes", bytes.len()));
        let version = fields.u32(4).ok_or_else(short)?;
        if !(1..=NEWEST_VERSION).contains(&version) {
            return Err(unknown_version("OffloadBinary", version, NEWEST_VERSION));
        }
        let [size, entries_at, count] =
            [8, 16, 24].map(|at| fields.u64(at)).map(|field| field.ok_or_else(short));
        let (size, entries_at, count) = (size?, entries_at?, count?);
        let inflated_bytes =
            if version >= 3 { fields.u64(HEADER_BYTES).ok_or_else(short)? } else { 0 };
        if size <= HEADER_BYTES || size > bytes.len() as u64 {
            let there = bytes.len();
            return Err(invalid(format!(
                "its header declares {size} bytes, expected more than {HEADER_BYTES} and at most the \
                 {there} available"
            )));
        }
        // In version 1 this field is the size of the only entry.
        let entries = if version == 1 { 1 } else { count };
        Ok(Header { version, bytes: size as usize, entries_at, entries, inflated_bytes })
    }
}

fn read_one(opening: &mut Opening, binary: &Image, header: &Header, depth: usize) -> Result<()> {
    let inflated;
    let binary = match header.inflated_bytes {
        0 => binary,
        _ => {
            inflated = inflate(opening, binary, header)?;
            &inflated
        }
    };
    for index in 0..header.entries {
        let entry = entry(binary, header, index).ok_or_else(|| {
            let bytes = binary.bytes().len();
            invalid(format!("entry {index} lies beyond the binary's {bytes} bytes"))
        })?;
        opening.add(entry, depth)?;
    }
    Ok(())
}

/// Returns the decompressed binary. The data behind the header is compressed.
fn inflate(opening: &mut Opening, binary: &Image, header: &Header) -> Result<Image> {
    let beyond =
        || invalid(format!("its entries start at offset {}, beyond its end", header.entries_at));
    let start = usize::try_from(header.entries_at).map_err(|_| beyond())?;
    let (head, body) = binary.bytes().split_at_checked(start).ok_or_else(beyond)?;
    let body_bytes = header.inflated_bytes.checked_sub(header.entries_at).ok_or_else(beyond)?;
    let mut whole = head.to_vec();
    compression::inflate(opening, compression::method_of(body), body, body_bytes, &mut whole)?;
    Ok(Image::from(whole))
}

fn entry(binary: &Image, header: &Header, index: u64) -> Option<ContainerEntry> {
    let fields = Fields(binary.bytes());
    let base = header.entries_at.checked_add(index.checked_mul(ENTRY_BYTES)?)?;
    fields.range(base, ENTRY_BYTES)?;
    let number = |at| fields.u64(base + at);
    let (start, bytes) = (usize::try_from(number(24)?).ok()?, usize::try_from(number(32)?).ok()?);
    let mut entry = ContainerEntry {
        image: binary.part(start..start.checked_add(bytes)?)?,
        image_kind: ImageKind::from_number(fields.u16(base)?),
        offload_kind: OffloadKind::from_number(fields.u16(base + 2)?),
        flags: fields.u32(base + 4)?,
        triple: String::new(),
        arch: String::new(),
        properties: Vec::new(),
    };
    let (strings_at, strings) = (number(8)?, number(16)?);
    for index in 0..strings.min(MOST_STRINGS) {
        let (key, value) = string(fields, header.version, strings_at, index)?;
        match key.as_str() {
            "triple" => entry.triple = value,
            "arch" => entry.arch = value,
            _ => entry.properties.push((key, value)),
        }
    }
    Some(entry)
}

fn string(fields: Fields<'_>, version: u32, table: u64, index: u64) -> Option<(String, String)> {
    let string_bytes = if version == 1 { 16 } else { 24 };
    let at = table.checked_add(index.checked_mul(string_bytes)?)?;
    fields.range(at, string_bytes)?;
    let (key_at, value_at) = (fields.u64(at)?, fields.u64(at + 8)?);
    let value = match version {
        1 => fields.terminated(value_at)?,
        _ => fields.text(value_at, fields.u64(at + 16)?)?,
    };
    Some((fields.terminated(key_at)?, value))
}
