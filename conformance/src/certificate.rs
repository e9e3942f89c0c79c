//! The certificate of a plugin: the report of a run of the suite, with a digest that finds edited
//! reports and other plugins. `docs/conformance.md` describes the JSON.

mod answers;
mod contents;
mod destination;
mod verify;

pub use answers::DeviceAnswers;
pub use contents::{Certificate, DeviceResults};
pub use destination::Destination;
pub use verify::{Unverified, verify};

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The version of the report's JSON.
const SCHEMA: u64 = 1;
/// The key of the digest.
const DIGEST: &str = "digest";

/// The size of a file, and the SHA-256 of its bytes in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHash {
    /// Number of bytes.
    pub bytes: u64,
    /// The hash, 64 digits.
    pub sha256: String,
}

impl FileHash {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    /// Errors of opening and reading the file.
    pub fn read(path: &Path) -> io::Result<FileHash> {
        let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), 0);
        let mut piece = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 {
                return Ok(FileHash { bytes, sha256: hexadecimal(&hash.finalize()) });
            }
            hash.update(&piece[..count]);
            bytes += count as u64;
        }
    }
}

/// Returns the digest of a report: the SHA-256 of its canonical form, without the digest itself.
fn digest(report: &Value) -> String {
    let mut canonical = String::new();
    write_canonical(report, true, &mut canonical);
    format!("sha256:{}", hexadecimal(&Sha256::digest(canonical)))
}

/// Writes JSON without blanks, with the keys of each object in order.
fn write_canonical(value: &Value, is_report: bool, into: &mut String) {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<_> =
                members.keys().filter(|key| !(is_report && *key == DIGEST)).collect();
            keys.sort();
            into.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                into.push_str(if index > 0 { "," } else { "" });
                into.push_str(&Value::from(key.as_str()).to_string());
                into.push(':');
                write_canonical(&members[key], false, into);
            }
            into.push('}');
        }
        Value::Array(elements) => {
            into.push('[');
            for (index, element) in elements.iter().enumerate() {
                into.push_str(if index > 0 { "," } else { "" });
                write_canonical(element, false, into);
            }
            into.push(']');
        }
        other => into.push_str(&other.to_string()),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
