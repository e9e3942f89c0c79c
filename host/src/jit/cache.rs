//! The cache of compiled bitcode on disk.
//!
//! A file of the folder is one result; its name is the key of the compilation. Devices execute the
//! contents, so the conditions for a plugin's file hold: no untrusted user may have write access to
//! the file or to a folder of its path. A file is written under another name and then renamed, so
//! that readers of any process see it as a whole. A checksum protects against torn files. No
//! failure of the cache is an error of the load.

mod entry;
mod eviction;

use super::key::Key;
use crate::discovery::{Trust, TrustedFolder};
use longshore_plugin_api::{Error, ErrorCode};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Prefix of a file that is being written.
const UNFINISHED: &str = "new-";
/// Largest file that is read, in bytes.
const MOST_FILE_BYTES: u64 = 4 << 30;
/// Age of the time of use of a file from which on a use is noted.
const NOTED_AFTER: Duration = Duration::from_secs(60);

/// A folder of results.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// Most bytes of all files in the folder.
    most_bytes: u64,
    /// The folder after its check. A later change of a folder above it is not noticed.
    opened: Mutex<Option<Arc<TrustedFolder>>>,
    /// Reasons why the folder could not be used, each of which was logged.
    logged: Mutex<BTreeSet<String>>,
}

impl Cache {
    /// Default of the most bytes of a folder.
    pub(super) const MOST_BYTES: u64 = 512 << 20;

    /// Creates the cache in a folder, which need not exist.
    pub(super) fn new(folder: PathBuf, most_bytes: u64) -> Cache {
        Cache { folder, most_bytes, opened: Mutex::default(), logged: Mutex::default() }
    }

    /// Returns the code that was stored under a key, and marks the file as just used. A file with
    /// wrong contents is deleted. Blocks.
    pub(super) fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let file = match self.open(key) {
            Ok(file) => file?,
            Err(why) => {
                self.log("cannot be read", &why);
                return None;
            }
        };
        let contents = match contents(&file) {
            Ok(contents) => contents,
            Err(error) => {
                self.log("cannot be read", &error);
                return None;
            }
        };
        let code = entry::decode(key, contents);
        if code.is_none() {
            let path = self.path(key);
            log::warn!("the compiled image '{}' is damaged and is deleted", path.display());
            drop(std::fs::remove_file(&path));
        }
        code
    }

    /// Opens the file of a key; `None` if it does not exist.
    ///
    /// # Errors
    /// The reason for a refusal.
    fn open(&self, key: &Key) -> Result<Option<File>, String> {
        let trust = Trust::for_process();
        let mut opened = self.opened.lock();
        let folder = match &*opened {
            Some(folder) => Arc::clone(folder),
            None if !self.folder.exists() => return Ok(None),
            None => Arc::clone(opened.insert(Arc::new(trust.open_folder(&self.folder)?))),
        };
        drop(opened);
        let file = trust.open_in(&folder, &key.to_string());
        if !matches!(file, Ok(Some(_))) {
            // Another folder may have taken the place of this one.
            *self.opened.lock() = None;
        }
        file
    }

    /// Stores code under a key, and removes the files that were not used for the longest time if
    /// the folder is too large. Blocks.
    pub(super) fn write(&self, key: &Key, code: &[u8]) {
        let header = entry::header(key, code);
        if (header.len() + code.len()) as u64 > self.most_bytes {
            return;
        }
        match self.try_write(key, &[&header, code]) {
            Ok(()) => eviction::shrink(&self.folder, self.most_bytes, &self.path(key)),
            Err(error) => self.log("cannot be written", &error),
        }
    }

    fn try_write(&self, key: &Key, parts: &[&[u8]]) -> Result<(), Error> {
        let failed = |error: io::Error| Error::new(ErrorCode::HostIo, error.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        let refused = |why| Error::new(ErrorCode::HostIo, why);
        let folder = Trust::for_process().open_folder(&self.folder).map_err(refused)?;
        let folder = folder.path();
        // Only the user may read and write the file.
        let mut file =
            tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(failed)?;
        parts.iter().try_for_each(|part| file.write_all(part)).map_err(failed)?;
        file.persist(folder.join(key.to_string())).map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(key.to_string())
    }

    /// Logs a reason once.
    fn log(&self, what: &str, why: &dyn std::fmt::Display) {
        let why = why.to_string();
        if self.logged.lock().insert(why.clone()) {
            let folder = self.folder.display();
            log::info!("the cache of compiled images '{folder}' {what}: {why}");
        }
    }
}

/// Reads a file, and notes its use.
fn contents(file: &File) -> io::Result<Vec<u8>> {
    let facts = file.metadata()?;
    let mut contents = Vec::with_capacity(facts.len().min(MOST_FILE_BYTES) as usize + 1);
    file.take(MOST_FILE_BYTES).read_to_end(&mut contents)?;
    let age = facts.modified().ok().and_then(|used| used.elapsed().ok());
    if age.is_none_or(|age| age > NOTED_AFTER) {
        // The time decides about eviction; a file on a read-only file system keeps its own.
        drop(file.set_modified(SystemTime::now()));
    }
    Ok(contents)
}

/// Returns whether a file has the name of a result.
fn is_result(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
    name.len() == 2 * Key::BYTES && name.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests;
