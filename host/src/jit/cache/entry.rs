//! The contents of a cached file: magic number, key, length and CRC-32 of the code, the code.
//!
//! The CRC finds damage. Trust in the file's path keeps out other users' code.

use crate::jit::key::Key;
use flate2::Crc;

/// Magic number, with the version of the format.
const MAGIC: &[u8; 16] = b"longshore jit 1\n";
const HEADER_BYTES: usize = MAGIC.len() + Key::BYTES + 12;

/// Returns the bytes before the code.
pub(super) fn header(key: &Key, code: &[u8]) -> [u8; HEADER_BYTES] {
    let mut crc = Crc::new();
    crc.update(code);
    let mut header = [0; HEADER_BYTES];
    let parts =
        [&MAGIC[..], key.bytes(), &(code.len() as u64).to_le_bytes(), &crc.sum().to_le_bytes()];
    let mut rest = &mut header[..];
    for part in parts {
        let (place, behind) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = behind;
    }
    header
}

/// Returns the code of a file; `None` for a file with other contents.
pub(super) fn decode(key: &Key, mut contents: Vec<u8>) -> Option<Vec<u8>> {
    let code = contents.get(HEADER_BYTES..)?;
    if contents[..HEADER_BYTES] != header(key, code) {
        return None;
    }
    contents.drain(..HEADER_BYTES);
    Some(contents)
}
