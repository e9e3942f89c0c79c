//! The folder for temporary files, and the headers for kernels in it.

use super::headers;
use crate::failure::{Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use tempfile::TempDir;

/// A temporary folder. It is removed on drop, and when a signal interrupts the command.
pub(crate) struct Workspace(TempDir);

impl Workspace {
    pub(crate) fn new() -> Result<Workspace, Failure> {
        Self::make().map_err(|error| {
            let message = format!("cannot create a temporary folder: {error}");
            Failure::new(Exit::Runtime, message).or_hint("set TMPDIR to a writable folder")
        })
    }

    fn make() -> io::Result<Workspace> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let workspace = Workspace(tempfile::Builder::new().prefix("longshore-cc-").tempdir()?);
        let folder = workspace.path().to_owned();
        thread::spawn(move || {
            for signal in signals.forever() {
                // The interrupted command does not report a folder that cannot be removed.
                let _ = std::fs::remove_dir_all(&folder);
                let _ = emulate_default_handler(signal);
            }
        });
        headers::write(&workspace.include())?;
        Ok(workspace)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the folder with the headers alone.
    pub(crate) fn include(&self) -> PathBuf {
        self.path().join("include")
    }
}
