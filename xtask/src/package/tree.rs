//! Trees of files.

use anyhow::{Context, Result};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Returns the size of a file in bytes; 0 for a link.
///
/// # Errors
/// A missing file.
pub(crate) fn size(file: &Path) -> Result<u64> {
    let metadata = file.symlink_metadata().with_context(|| file.display().to_string())?;
    Ok(if metadata.is_symlink() { 0 } else { metadata.len() })
}

/// Writes a file that all users may read, and the folders above it.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    make_folder(file.parent().context("a file is in a folder")?)?;
    std::fs::write(file, text).with_context(|| file.display().to_string())?;
    set_mode(file, 0o644)
}

/// Copies a file with its mode, or a link as it is.
///
/// # Errors
/// A file that cannot be copied.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    make_folder(to.parent().context("a file is in a folder")?)?;
    if from.is_symlink() {
        return symlink(std::fs::read_link(from)?, to).with_context(|| to.display().to_string());
    }
    std::fs::copy(from, to).with_context(|| to.display().to_string())?;
    Ok(())
}

/// Makes a folder and the folders above it. All users may read new folders, whatever the
/// caller's mask is.
fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder(above)?;
    }
    std::fs::create_dir(folder).with_context(|| folder.display().to_string())?;
    set_mode(folder, 0o755)
}

fn set_mode(file: &Path, mode: u32) -> Result<()> {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(file, permissions).with_context(|| file.display().to_string())
}

/// Removes a folder with its contents, if there is one.
///
/// # Errors
/// A folder that cannot be removed.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}
