//! Decompression, bounded by the container's declared size and by the limit of an opening.

use super::fields::Fields;
use super::{Opening, invalid, unknown_version, unsupported};
use flate2::read::ZlibDecoder;
use longshore_plugin_api::Result;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// A method of compression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Zlib,
    Zstd,
}

/// Returns the method of compressed bytes, recognised by their magic number.
pub(super) fn method_of(compressed: &[u8]) -> Method {
    match compressed {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Method::Zstd,
        _ => Method::Zlib,
    }
}

/// Appends `bytes` decompressed bytes to `into`.
///
/// # Errors
/// `InvalidBinary` if the data has more or fewer than `bytes` bytes or is damaged; `Unsupported`
/// beyond the limit of an opening.
pub(super) fn inflate(
    opening: &mut Opening,
    method: Method,
    compressed: &[u8],
    bytes: u64,
    into: &mut Vec<u8>,
) -> Result<()> {
    opening.make(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    let damaged =
        |error: std::io::Error| invalid(format!("its compressed data: {error}")).with_source(error);
    let before = into.len();
    // One byte more than declared is read, to detect larger data.
    let read = match method {
        Method::Zlib => ZlibDecoder::new(compressed).take(bytes + 1).read_to_end(into),
        Method::Zstd => StreamingDecoder::new_with_max_window_size(compressed, bytes.max(1 << 20))
            .map_err(|error| invalid(format!("its compressed data: {error}")).with_source(error))?
            .take(bytes + 1)
            .read_to_end(into),
    };
    read.map_err(damaged)?;
    let found = into.len() - before;
    if found as u64 != bytes {
        return Err(invalid(format!("decompression gave {found} bytes, expected {bytes}")));
    }
    Ok(())
}

/// Decompresses the bundle at the start of `bytes`, and returns it with the offset of the
/// compressed bundle's end.
///
/// The header is "CCOB", version and method (16 bits each), sizes, and a 64-bit checksum, which is
/// not read. Version 1 has the decompressed size (32 bits). Version 2 has the size of the
/// compressed bundle before it (32 bits each), and version 3 has both in 64 bits.
pub(super) fn inflate_bundle(opening: &mut Opening, bytes: &[u8]) -> Result<(Vec<u8>, usize)> {
    let fields = Fields(bytes);
    let short = || invalid(format!("its header is cut off after {} bytes", bytes.len()));
    let (version, method) = (fields.u16(4).ok_or_else(short)?, fields.u16(6).ok_or_else(short)?);
    let method = match method {
        0 => Method::Zlib,
        1 => Method::Zstd,
        _ => return Err(unsupported(format!("compression method {method} of offload bundles"))),
    };
    let small = |at| fields.u32(at).map(u64::from);
    let (size, inflated, header_bytes) = match version {
        1 => (Some(bytes.len() as u64), small(8), 20),
        2 => (small(8), small(12), 24),
        3 => (fields.u64(8), fields.u64(16), 32),
        _ => return Err(unknown_version("compressed offload bundles", version.into(), 3)),
    };
    let (size, inflated) = (size.ok_or_else(short)?, inflated.ok_or_else(short)?);
    let end = usize::try_from(size).ok().filter(|end| *end <= bytes.len());
    let whole = end.and_then(|end| bytes.get(header_bytes..end)).ok_or_else(|| {
        invalid(format!("its header declares {size} bytes, but only {} are available", bytes.len()))
    })?;
    let mut bundle = Vec::new();
    inflate(opening, method, whole, inflated, &mut bundle)?;
    Ok((bundle, end.unwrap_or(bytes.len())))
}
