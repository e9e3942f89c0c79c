//! Static archives: their members, and the symbols that each defines.

use bytes::Bytes;
use object::read::archive::ArchiveFile;

use crate::{Error, Result};

/// The longest path on Linux, in bytes. Names in a hostile archive may overlap, so that a longer
/// one would be stored many times.
const MAX_NAME: usize = libc::PATH_MAX as usize;

/// Returns whether the bytes start like an archive.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n")
}

/// The members of an archive, in its order, without copies.
pub(crate) struct Archive {
    /// Name, `archive(member)`, and bytes of each member.
    pub(crate) members: Vec<(String, Bytes)>,
}

impl Archive {
    /// Lists the members. Thin archives are refused: their members are elsewhere.
    pub(crate) fn read(name: &str, bytes: &Bytes) -> Result<Self> {
        let malformed = |problem: &dyn std::fmt::Display| Error::Malformed {
            file: name.to_owned(),
            problem: problem.to_string(),
        };
        let archive = ArchiveFile::parse(&**bytes).map_err(|e| malformed(&e))?;
        if archive.is_thin() {
            let problem = "it is a thin archive, whose members are other files; link these files, or make a regular archive".to_owned();
            return Err(Error::Unsupported { file: name.to_owned(), problem });
        }
        let mut members = Vec::new();
        for member in archive.members() {
            let member = member.map_err(|e| malformed(&e))?;
            let content = member.data(&**bytes).map_err(|e| malformed(&e))?;
            let length = member.name().len();
            if length > MAX_NAME {
                return Err(malformed(&format_args!(
                    "a member's name has {length} bytes, expected a file's name"
                )));
            }
            let member_name = format!("{name}({})", String::from_utf8_lossy(member.name()));
            members.push((member_name, bytes.slice_ref(content)));
        }
        Ok(Self { members })
    }
}
