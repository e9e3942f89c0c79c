//! Files of a cache: replaced as a whole, and read only if no other user could have written them.

use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bits that a file's mode must not have: write access by the group or other users.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Reads a whole file that only the user could have written. Blocks.
///
/// # Errors
/// An unreadable file, a file that other users could have written, or a file of more than `most`
/// bytes.
pub(crate) fn read(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    // Links are not followed, and the open does not wait for a pipe.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path);
    let file = file.map_err(|error| error.to_string())?;
    check_owner(&file)?;
    let mut content = Vec::new();
    let read = file.take(most as u64 + 1).read_to_end(&mut content);
    let bytes = read.map_err(|error| error.to_string())?;
    match bytes > most {
        true => Err(format!("it has more than {most} bytes")),
        false => Ok(content),
    }
}

/// Replaces a file as a whole: readers see the old or the new file. Creates its folder. Blocks.
///
/// # Errors
/// The file system's errors; the file is unchanged then.
pub(crate) fn replace(path: &Path, prefix: &str, parts: &[&[u8]]) -> io::Result<()> {
    let folder = path.parent().expect("the file was named in a folder");
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Only the user may read and write the file.
    let mut file = tempfile::Builder::new().prefix(prefix).tempfile_in(folder)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.persist(path)?;
    Ok(())
}

fn check_owner(file: &File) -> Result<(), String> {
    let known = file.metadata().map_err(|error| error.to_string())?;
    let user = rustix::process::geteuid().as_raw();
    match () {
        () if !known.is_file() => Err("it is not a regular file".to_owned()),
        () if known.uid() != user => {
            Err(format!("user {} owns it, expected user {user} of this process", known.uid()))
        }
        () if known.mode() & WRITABLE_BY_OTHERS != 0 => {
            Err(format!("other users may write to it (mode {:o})", known.mode() & 0o7777))
        }
        () => Ok(()),
    }
}
