//! The identity of a compilation.

use sha2::{Digest, Sha256};
use std::fmt;

/// The SHA-256 of everything that determines the result of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; Key::BYTES]);

impl Key {
    /// Size of a key in bytes.
    pub(super) const BYTES: usize = 32;

    /// Creates the key of parts. Each part counts with its length, so that no two lists of parts
    /// have the same digest.
    pub(super) fn from_parts(parts: &[&[u8]]) -> Key {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Key(digest.finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8; Key::BYTES] {
        &self.0
    }
}

/// Formats the key as 64 hexadecimal digits.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits =
            self.0.map(|byte| [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
        f.write_str(std::str::from_utf8(digits.as_flattened()).expect("the digits are ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_parts_have_another_key() {
        let keys = [
            Key::from_parts(&[b"ab", b"c"]),
            Key::from_parts(&[b"a", b"bc"]),
            Key::from_parts(&[b"ab", b"c", b""]),
        ];
        assert!(keys[0] != keys[1] && keys[0] != keys[2]);
        assert_eq!(keys[0], Key::from_parts(&[b"ab", b"c"]));
        assert_eq!(keys[0].to_string().len(), 2 * Key::BYTES);
    }
}
