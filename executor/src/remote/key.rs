//! The key shared by both sides.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A shared secret of 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; Key::BYTES]);

/// The reason why a file gives no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Failure to read the file.
    #[error("'{}': {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file readable by other users.
    #[error("'{}' is readable by other users: restrict it with 'chmod 600', and make a new key if another user may have read it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// A file whose contents are not a key.
    #[error("'{}' is not a key: 64 hexadecimal digits are expected, as 'openssl rand -hex 32' prints them", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

impl Key {
    /// Bytes of a key.
    pub const BYTES: usize = 32;

    /// Creates a key from bytes, which must come from a cryptographic source of randomness.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads a key from a file of 64 hexadecimal digits, which must be readable by its owner alone.
    ///
    /// # Errors
    /// The reason why the file gives no key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::Read { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned() });
        }
        let mut text = String::new();
        let malformed = || KeyError::Malformed { path: path.to_owned() };
        file.by_ref().take(1024).read_to_string(&mut text).map_err(|_| malformed())?;
        Self::parse(text.trim()).ok_or_else(malformed)
    }

    pub(super) fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Self::BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut key = [0; Self::BYTES];
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(key))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_read_from_a_file_that_others_cannot_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Key::read(&path)
        };
        let digits = "0123456789abcdefABCDEF00112233445566778899aabbccddeeff0011223344";
        let key = write(&format!("{digits}\n"), 0o600).unwrap();
        assert_eq!(key.bytes()[..4], [0x01, 0x23, 0x45, 0x67]);
        assert!(!format!("{key:?}").contains("01"));
        assert!(matches!(write(digits, 0o640), Err(KeyError::Exposed { .. })));
        for wrong in
            ["", &digits[1..], &digits.replace('a', "g"), &format!("{digits}00"), &"+1".repeat(32)]
        {
            assert!(matches!(write(wrong, 0o600), Err(KeyError::Malformed { .. })), "{wrong}");
        }
        assert!(matches!(Key::read(&folder.path().join("none")), Err(KeyError::Read { .. })));
    }
}
