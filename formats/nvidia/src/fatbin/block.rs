//! What is stored behind an entry's header, and its decompression.

use super::malformed;
use crate::Malformed;
use ruzstd::decoding::StreamingDecoder;
use std::fmt;
use std::io::Read;
use std::sync::OnceLock;

/// How a block is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Lz4,
    Zstd,
    /// Compressed in a way that no flag says.
    Unknown,
}

/// A larger block is not decompressed.
const MOST_BYTES: u64 = 256 << 20;
/// One byte of LZ4 makes no more than this.
const MOST_BY_LZ4: u64 = 255;
/// A window that decoders must expect, also of a smaller block.
const USUAL_WINDOW: u64 = 1 << 23;

/// Bytes as they are stored, and what they are once somebody asks.
pub(super) struct Block<'a> {
    method: Method,
    stored: &'a [u8],
    /// As its header says.
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

    /// The bytes, decompressed if they must be.
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
                "it claims {claimed} bytes when decompressed, more than {MOST_BYTES}"
            )));
        }
        let inflated = match self.method {
            Method::Lz4 => self.lz4()?,
            Method::Zstd => self.zstd()?,
            Method::Stored | Method::Unknown => {
                return Err(malformed("it is compressed in a way that is not known"));
            }
        };
        match inflated.len() as u64 == claimed {
            true => Ok(inflated),
            false => {
                let found = inflated.len();
                Err(malformed(&format!(
                    "it claims {claimed} bytes when decompressed, and has {found}"
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
        // One byte more than promised is enough to notice that there is more.
        let mut bounded = decoder.map_err(|error| damaged(&error))?.take(self.inflated_bytes + 1);
        bounded.read_to_end(&mut inflated).map_err(|error| damaged(&error))?;
        Ok(inflated)
    }
}

fn damaged(error: &dyn fmt::Display) -> Malformed {
    malformed(&format!("its compressed data: {error}"))
}
