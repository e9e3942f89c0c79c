//! Data stored after an entry's header, and its decompression.

use super::malformed;
use crate::Malformed;
use ruzstd::decoding::StreamingDecoder;
use std::fmt;
use std::io::Read;
use std::sync::OnceLock;

/// The compression method of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Lz4,
    Zstd,
    /// A method that no flag identifies.
    Unknown,
}

/// Most bytes of a block that is decompressed.
const MOST_BYTES: u64 = 256 << 20;
/// Most bytes that one byte of LZ4 expands to.
const MOST_BY_LZ4: u64 = 255;
/// Size in bytes of a window that decoders must support, even for a smaller block.
const USUAL_WINDOW: u64 = 1 << 23;

/// Stored bytes, decompressed at first use.
pub(super) struct Block<'a> {
    method: Method,
    stored: &'a [u8],
    /// Decompressed size according to the header.
    inflated_bytes: u64,
    inflated: OnceLock<Result<Vec<u8>, Malformed>>,
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} bytes", self.method, self.stored.len())
    }
}

impl<'a> Block<'a> {
    pub(super) fn new(method: Method, stored: &'a [u8], inflated_bytes: u64) -> Block<'a> {
        Block { method, stored, inflated_bytes, inflated: OnceLock::new() }
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.method != Method::Stored
    }

    /// Returns the bytes, decompressed if necessary.
    pub(super) fn bytes(&self) -> Result<&[u8], Malformed> {
        if self.method == Method::Stored {
            return Ok(self.stored);
        }
        let inflated = self.inflated.get_or_init(|| self.inflate());
        inflated.as_deref().map_err(Malformed::clone)
    }

    fn inflate(&self) -> Result<Vec<u8>, Malformed> {
        let claimed = self.inflated_bytes;
        if claimed > MOST_BYTES {
            return Err(malformed(&format!(
                "it claims {claimed} bytes when decompressed, expected at most {MOST_BYTES}"
            )));
        }
        let inflated = match self.method {
            Method::Lz4 => self.lz4()?,
            Method::Zstd => self.zstd()?,
            Method::Stored | Method::Unknown => {
                return Err(malformed("its compression method is unknown"));
            }
        };
        match inflated.len() as u64 == claimed {
            true => Ok(inflated),
            false => {
                let found = inflated.len();
                Err(malformed(&format!(
                    "it claims {claimed} bytes when decompressed, but has {found}"
                )))
            }
        }
    }

    fn lz4(&self) -> Result<Vec<u8>, Malformed> {
        let most = MOST_BY_LZ4.saturating_mul(self.stored.len() as u64);
        let bytes = usize::try_from(self.inflated_bytes.min(most)).unwrap_or(usize::MAX);
        lz4_flex::block::decompress(self.stored, bytes).map_err(|error| damaged(&error))
    }

    fn zstd(&self) -> Result<Vec<u8>, Malformed> {
        let window = self.inflated_bytes.max(USUAL_WINDOW);
        let decoder = StreamingDecoder::new_with_max_window_size(self.stored, window);
        let mut inflated = Vec::new();
        // One byte more than claimed is enough to detect a larger size.
        let mut bounded = decoder.map_err(|error| damaged(&error))?.take(self.inflated_bytes + 1);
        bounded.read_to_end(&mut inflated).map_err(|error| damaged(&error))?;
        Ok(inflated)
    }
}

fn damaged(error: &dyn fmt::Display) -> Malformed {
    malformed(&format!("its compressed data: {error}"))
}
