//! Verdicts of the command, kept on disk between processes.
//!
//! A kept verdict replaces a check, so a file is used only if no other user could have written it,
//! and if it is complete. A verdict depends on the command's file, the rules and the words of the
//! module.
//!
//! The folder has up to 256 files, one for each value of a [`Key`]'s first byte. A file has a
//! header, little-endian, and the latest verdicts, newest first. It is replaced as a whole. If
//! several processes replace it at the same time, the last one wins, and the command produces the
//! lost verdicts again.
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 8 | `LSHRVERD` |
//! | 8 | 4 | version of this layout |
//! | 12 | 4 | 0 |
//! | 16 | 8 | size of the verdicts in bytes |
//! | 24 | 16 | MD5 of the verdicts |
//!
//! A verdict is a key, the length of its text in 4 bytes, and the text; a valid module has the
//! length `0xffff_ffff`.

use crate::private_file;
use crate::validate::rules::{Rules, Verdict};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"LSHRVERD";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const KEY_BYTES: usize = 32;
/// Length that stands for a valid module.
const VALID: u32 = u32::MAX;
/// Most verdicts of a file. If a file of the [256 files](self) is full, its oldest verdicts are
/// dropped.
const MOST_VERDICTS: usize = 64;
/// Larger files are neither read nor written.
const MOST_BYTES: usize = 512 << 10;

/// The SHA-256 of all inputs of a verdict: an attacker cannot make two modules with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key([u8; KEY_BYTES]);

impl Key {
    /// Creates the key of a verdict of a validator with this identity.
    pub(super) fn new(validator: &[u8], words: &[u32], rules: Rules) -> Key {
        let mut digest = Sha256::new();
        let environment = rules.environment.name().to_bytes();
        // Each part follows its length, so that no two lists of parts give the same bytes.
        for part in [validator, environment] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let layouts = rules.layouts;
        digest.update([u8::from(layouts.scalar), u8::from(layouts.standard_uniform)]);
        for word in words {
            digest.update(word.to_le_bytes());
        }
        Key(digest.finalize().into())
    }
}

/// The kept verdicts. Any thread and any process may find and keep verdicts at any time.
pub(super) struct VerdictCache {
    /// `None` if no verdicts are kept.
    folder: Option<PathBuf>,
}

impl VerdictCache {
    /// Creates a cache in this folder, which need not exist. Accesses no file.
    pub(super) fn new(folder: Option<&Path>) -> VerdictCache {
        VerdictCache { folder: folder.map(Path::to_owned) }
    }

    /// Returns the verdict of this key, if it is kept in a trusted file. Blocks while it reads a
    /// file.
    pub(super) fn find(&self, key: &Key) -> Option<Verdict> {
        let verdicts = read(&self.file(key)?);
        verdicts.into_iter().find(|(known, _)| known == key).map(|(_, verdict)| verdict)
    }

    /// Keeps a verdict. Failures are logged and leave the file unchanged. Blocks while it reads and
    /// writes a file.
    pub(super) fn keep(&self, key: &Key, verdict: &Verdict) {
        let Some(path) = self.file(key) else { return };
        let mut verdicts = read(&path);
        verdicts.retain(|(known, _)| known != key);
        verdicts.insert(0, (key.clone(), verdict.clone()));
        verdicts.truncate(MOST_VERDICTS);
        let data = encode(&verdicts);
        if let Err(error) = private_file::replace(&path, ".verdicts", &[&header(&data), &data]) {
            log::debug!("a verdict cannot be kept in {}: {error}", path.display());
        }
    }

    fn file(&self, key: &Key) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{:02x}.verdicts", key.0[0])))
    }
}

/// Returns the verdicts of a file. The list is empty without a trusted file; the reason is logged.
fn read(path: &Path) -> Vec<(Key, Verdict)> {
    let content = private_file::read(path, MOST_BYTES);
    let verdicts = content.and_then(|content| decode(&content).ok_or("it is damaged".to_owned()));
    verdicts.unwrap_or_else(|why| {
        log::debug!("verdicts of {} are not used: {why}", path.display());
        Vec::new()
    })
}

fn encode(verdicts: &[(Key, Verdict)]) -> Vec<u8> {
    let mut data = Vec::new();
    for (key, verdict) in verdicts {
        let (length, text) = match verdict {
            Verdict::Valid => (VALID, ""),
            Verdict::Invalid(text) => (text.len() as u32, &**text),
        };
        data.extend_from_slice(&key.0);
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(text.as_bytes());
    }
    data
}

fn header(data: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&(data.len() as u64).to_le_bytes());
    header[24..].copy_from_slice(&md5::compute(data).0);
    header
}

/// Returns the verdicts in the contents of a file; `None` for incomplete contents.
fn decode(content: &[u8]) -> Option<Vec<(Key, Verdict)>> {
    let (stored, mut data) = content.split_first_chunk::<HEADER_BYTES>()?;
    if *stored != header(data) {
        return None;
    }
    let mut verdicts = Vec::new();
    while !data.is_empty() {
        let (key, rest) = data.split_first_chunk::<KEY_BYTES>()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (verdict, rest) = match u32::from_le_bytes(*length) {
            VALID => (Verdict::Valid, rest),
            length => {
                let (text, rest) = rest.split_at_checked(length as usize)?;
                (Verdict::Invalid(std::str::from_utf8(text).ok()?.to_owned()), rest)
            }
        };
        verdicts.push((Key(*key), verdict));
        data = rest;
    }
    Some(verdicts)
}

#[cfg(test)]
mod tests;
