//! Files of folders.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Returns the files and links in a folder and below, sorted; none for a missing folder.
///
/// # Errors
/// A folder that cannot be read.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        if !folder.exists() {
            continue;
        }
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => open.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    Ok(files)
}
