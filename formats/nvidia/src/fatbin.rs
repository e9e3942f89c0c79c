//! NVIDIA's container: images one after the other, each behind a header of its own.
//!
//! An entry's header is its kind and version (16 bits each), its own size (32), the size of what follows
//! (64), the compressed size without padding (32), and further back the architecture (32, at 28), flags (64, at
//! 40) and the decompressed size (64, at 56). An entry of kind `JOINED` is several that were compressed
//! as one: behind its header are their number and headers, in which an offset into what is decompressed
//! stands instead of the header's size.

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
    /// What it is; of ELF files `Cubin`, also if it is relocatable.
    pub kind: Kind,
    /// What it is for.
    pub arch: Arch,
    /// Whether it is stored compressed.
    pub compressed: bool,
    block: Arc<Block<'a>>,
    /// Where the image is in the block; all of it otherwise.
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

/// The images of a fatbin, in its order. What is behind it is left alone.
///
/// # Errors
/// If it is none, or an entry lies beyond it.
pub fn fatbin(bytes: &[u8]) -> Result<Vec<FatbinEntry<'_>>, Malformed> {
    let fields = Fields(bytes);
    if fields.u32(0) != Some(MAGIC) {
        return Err(malformed("it does not start with 50 ed 55 ba"));
    }
    let body = body(fields).ok_or_else(|| {
        malformed(&format!("its header claims more than the {} bytes there", bytes.len()))
    })?;
    let mut entries = Vec::new();
    let mut at = 0;
    while at < body.0.len() as u64 {
        at = add_entry(&mut entries, body, at)
            .ok_or_else(|| malformed(&format!("the entry at offset {at} lies beyond it")))?;
    }
    Ok(entries)
}

impl FatbinEntry<'_> {
    /// The image, decompressed if it must be; zeros may be behind one that is not compressed. What
    /// several entries share is decompressed once.
    ///
    /// # Errors
    /// If what is compressed is damaged, of an unknown method, or larger than 256 MiB.
    pub fn image(&self) -> Result<Cow<'_, [u8]>, Malformed> {
        let whole = self.block.bytes()?;
        let Some(part) = &self.part else { return Ok(Cow::Borrowed(whole)) };
        let bytes = Fields(whole).range(part.start, part.end.saturating_sub(part.start));
        bytes.map(Cow::Borrowed).ok_or_else(|| malformed("an image lies beyond what is compressed"))
    }
}

/// All entries, with their headers.
fn body(fields: Fields<'_>) -> Option<Fields<'_>> {
    let (header_bytes, bytes) = (fields.u16(6)?, fields.u64(8)?);
    let start = u64::from(header_bytes).max(HEADER_BYTES);
    fields.range(start, bytes).map(Fields)
}

/// Adds the entry at an offset, and returns where the next one is.
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

/// Adds the entries that were compressed as one.
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

/// What is stored behind a header, without its padding.
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
