//! Programs on PATH.

use std::path::PathBuf;

/// Returns the folders of PATH, without relative ones: their contents depend on the current folder.
pub fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// Returns the first file of this name on PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(name)).find(|file| file.is_file())
}
