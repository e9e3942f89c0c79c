//! Atomic writes of files.

use crate::failure::{Exit, Failure};
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Fails if the path is a folder, or the file's folder does not exist.
pub(super) fn check(file: &Path) -> Result<(), Failure> {
    let folder = folder(file);
    let why = if file.is_dir() {
        "it is a folder".to_owned()
    } else if !folder.is_dir() {
        format!("there is no folder '{}'", folder.display())
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Runtime, format!("cannot write '{}': {why}", file.display())))
}

/// Writes a temporary file and renames it to `file`. A symbolic link is followed. A device or pipe,
/// such as /dev/stdout, is written directly.
pub(super) fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    try_write(file, bytes).map_err(|error| {
        let message = format!("cannot write '{}': {error}", file.display());
        Failure::new(Exit::Runtime, message)
    })
}

fn try_write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => {
            fs::OpenOptions::new().write(true).open(file)?.write_all(bytes)
        }
        Ok(metadata) => replace(&fs::canonicalize(file)?, bytes, metadata.permissions()),
        Err(_) => replace(file, bytes, Permissions::from_mode(0o666)),
    }
}

fn replace(file: &Path, bytes: &[u8], permissions: Permissions) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".longshore-").permissions(permissions);
    let mut temporary = builder.tempfile_in(folder(file))?;
    temporary.write_all(bytes)?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}

fn folder(file: &Path) -> &Path {
    let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
