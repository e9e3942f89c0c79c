//! The files of a link.

use super::kind::Kind;
use crate::failure::{Exit, Failure};
use bytes::Bytes;
use longshore::{Image, WholeFile};
use longshore_jitlink::Architecture;
use longshore_jitlink::session::StaticArchive;
use memmap2::Mmap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An input: an object, an archive or bitcode.
pub(super) struct Input {
    /// The file's path, as given.
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

/// Reads files, in their order.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    let read = |path: &PathBuf| Ok(Input { name: path.display().to_string(), bytes: read(path)? });
    paths.iter().map(read).collect()
}

/// Returns the bytes of a file, mapped if it is a regular file.
pub(super) fn read(path: &Path) -> Result<Bytes, Failure> {
    let bytes = || -> io::Result<Bytes> {
        let file = WholeFile::open(path)?;
        let Some(regular) = file.regular() else {
            return Ok(file.read(Image::MOST_BYTES)?.into());
        };
        // SAFETY: this process executes the bytes. A process that can change the file meanwhile
        // controls the execution in any case.
        Ok(Bytes::from_owner(unsafe { Mmap::map(regular) }?))
    };
    bytes().map_err(|error| {
        Failure::new(Exit::Runtime, format!("cannot read '{}': {error}", path.display()))
    })
}

/// Returns whether two paths name the same regular file.
pub(super) fn are_one_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let facts = path.metadata().ok().filter(|facts| facts.is_file())?;
        Some((facts.dev(), facts.ino()))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns the name and the architecture of the first object. The default is the file itself and
/// this machine's architecture; adding a file without objects fails later.
pub(super) fn first_object(input: &Input) -> (String, Architecture) {
    let of_object = |name: &str, bytes: &[u8]| match Kind::detect(bytes) {
        Kind::Object(architecture) => Some((name.to_owned(), architecture)),
        Kind::Bitcode => Some((name.to_owned(), longshore_bitcode::architecture(bytes)?)),
        _ => None,
    };
    let found = of_object(&input.name, &input.bytes).or_else(|| {
        let members = StaticArchive::read_members(&input.name, &input.bytes).ok()?;
        members.iter().find_map(|(name, bytes)| of_object(name, bytes))
    });
    let default = || (input.name.clone(), Architecture::native().unwrap_or(Architecture::X86_64));
    found.unwrap_or_else(default)
}
