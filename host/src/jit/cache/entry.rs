//! The contents of a cached file: magic number, key, SHA-256 of the code, the code.

use crate::jit::key::Key;
use sha2::{Digest, Sha256};

/// Magic number, with the version of the format.
const MAGIC: &[u8; 16] = b"longshore jit 1\n";
const DIGEST_BYTES: usize = 32;
const HEADER_BYTES: usize = MAGIC.len() + Key::BYTES + DIGEST_BYTES;

/// Returns the bytes before the code.
pub(super) fn header(key: &Key, code: &[u8]) -> Vec<u8> {
    [&MAGIC[..], key.bytes(), &digest(key, code)].concat()
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

fn digest(key: &Key, code: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = Sha256::new();
    digest.update(key.bytes());
    digest.update(code);
    digest.finalize().into()
}
