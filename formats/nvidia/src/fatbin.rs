//! NVIDIA's container: images in a row, each after its own header.
//!
//! The header of an entry has these fields:
//!
//! | byte | bits | field |
//! | --- | --- | --- |
//! | 0 | 16 | kind |
//! | 2 | 16 | version |
//! | 4 | 32 | size of the header |
//! | 8 | 64 | size of the contents |
//! | 16 | 32 | compressed size without padding |
//! | 28 | 32 | architecture |
//! | 40 | 64 | flags |
//! | 56 | 64 | decompressed size |
//!
//! An entry of kind `JOINED` consists of several entries compressed together. After its header are
//! their number and their headers, which have an offset into the decompressed data in place of the
//! header's size.

mod block;

use crate::fields::Fields;
use crate::{Arch, Kind, Malformed, Variant};
use block::{Block, Method};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// An image of a fatbin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FatbinEntry<'a> {
    /// The kind of image; `Cubin` for every ELF file, even a relocatable one.
    pub kind: Kind,
    /// The image's architecture.
    pub arch: Arch,
    /// Whether the image is stored compressed.
    pub compressed: bool,
    block: Arc<Block<'a>>,
    /// The image's range in a joined block; `None` if it is the whole block.
    part: Option<Range<u64>>,
}

const MAGIC: u32 = 0xba55_ed50;
const HEADER_BYTES: u64 = 16;
const ENTRY_HEADER_BYTES: u64 = 64;

const PTX: u16 = 1;
const ELF: u16 = 2;
const JOINED: u16 = 0x100;

const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const SPECIFIC: u64 = 0x10_0000;
const FAMILY: u64 = 0x20_0000;

/// Returns the images of a fatbin, in its order. Bytes after the fatbin are ignored.
///
/// # Errors
/// Bytes that are not a fatbin, or an entry that lies beyond its end.
pub fn fatbin(bytes: &[u8]) -> Result<Vec<FatbinEntry<'_>>, Malformed> {
    let fields = Fields(bytes);
    if fields.u32(0) != Some(MAGIC) {
        return Err(malformed("it does not start with 50 ed 55 ba"));
    }
    let body = body(fields).ok_or_else(|| {
        malformed(&format!("its header claims more than the {} bytes of the file", bytes.len()))
    })?;
    let mut entries = Vec::new();
    let mut at = 0;
    while at < body.0.len() as u64 {
        at = add_entry(&mut entries, body, at)
            .ok_or_else(|| malformed(&format!("the entry at offset {at} lies beyond its end")))?;
    }
    Ok(entries)
}

impl FatbinEntry<'_> {
    /// Returns the image, decompressed if necessary. Zeros may follow an image that is not
    /// compressed. Data that several entries share is decompressed once.
    ///
    /// # Errors
    /// Compressed data that is damaged, of an unknown method, or larger than 256 MiB.
    pub fn image(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        let whole = self.block.bytes()?;
        let Some(part) = &self.part else { return Ok(Cow::Borrowed(whole)) };
        let bytes = Fields(whole).range(part.start, part.end.saturating_sub(part.start));
        bytes
            .map(Cow::Borrowed)
            .ok_or_else(|| malformed("an image lies beyond the decompressed data"))
    }
}

/// Returns all entries, with their headers.
fn body(fields: Fields<'_>) -> Option<Fields<'_>> {
    let (header_bytes, bytes) = (fields.u16(6)?, fields.u64(8)?);
    let start = u64::from(header_bytes).max(HEADER_BYTES);
    fields.range(start, bytes).map(Fields)
}

/// Adds the entry at an offset, and returns the offset of the next one.
fn add_entry<'a>(into: &mut Vec<FatbinEntry<'a>>, body: Fields<'a>, at: u64) -> Option<u64> {
    let own_header = body.range(at, ENTRY_HEADER_BYTES).map(Fields)?;
    let header_bytes = u64::from(own_header.u32(4)?);
    let header = body.range(at, header_bytes.max(ENTRY_HEADER_BYTES)).map(Fields)?;
    let start = at.checked_add(header.0.len() as u64)?;
    let padded = header.u64(8)?;
    let stored = body.range(start, padded)?;
    let block = Arc::new(block_of(header, stored)?);
    match header.u16(0)? {
        JOINED => add_joined(into, header, &block)?,
        _ => into.push(entry(header, block, None)?),
    }
    start.checked_add(padded)
}

/// Adds the entries that were compressed together.
fn add_joined<'a>(
    into: &mut Vec<FatbinEntry<'a>>,
    header: Fields<'a>,
    block: &Arc<Block<'a>>,
) -> Option<()> {
    const LIST: u64 = ENTRY_HEADER_BYTES;
    for index in 0..u64::from(header.u32(LIST)?) {
        let at = LIST + 8 + index * ENTRY_HEADER_BYTES;
        let own = header.range(at, ENTRY_HEADER_BYTES).map(Fields)?;
        let start = u64::from(own.u32(4)?);
        let end = start.checked_add(own.u64(8)?)?;
        into.push(entry(own, Arc::clone(block), Some(start..end))?);
    }
    Some(())
}

fn entry<'a>(
    header: Fields<'_>,
    block: Arc<Block<'a>>,
    part: Option<Range<u64>>,
) -> Option<FatbinEntry<'a>> {
    let kind = match header.u16(0)? {
        PTX => Kind::Ptx,
        ELF => Kind::Cubin,
        other => Kind::Other(other),
    };
    let variant = match header.u64(40)? {
        flags if flags & SPECIFIC != 0 => Variant::Specific,
        flags if flags & FAMILY != 0 => Variant::Family,
        _ => Variant::Any,
    };
    let arch = Arch { number: header.u32(28)?, variant };
    Some(FatbinEntry { kind, arch, compressed: block.is_compressed(), block, part })
}

/// Returns the data stored after a header, without its padding.
fn block_of<'a>(header: Fields<'_>, stored: &'a [u8]) -> Option<Block<'a>> {
    let (compressed_bytes, flags) = (header.u32(16)?, header.u64(40)?);
    let method = match flags {
        _ if compressed_bytes == 0 => Method::Stored,
        flags if flags & ZSTD != 0 => Method::Zstd,
        flags if flags & LZ4 != 0 => Method::Lz4,
        _ => Method::Unknown,
    };
    let stored = match method {
        Method::Stored => stored,
        _ => stored.get(..usize::try_from(compressed_bytes).ok()?)?,
    };
    Some(Block::new(method, stored, header.u64(56)?))
}

fn malformed(what: &str) -> Malformed {
    Malformed(format!("the fatbin is malformed: {what}"))
}

#[cfg(test)]
mod tests;
