//! The place of a report, which is checked before the run.

use super::Certificate;
use jiff::Timestamp;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The place of a report, to which a report can be written.
#[derive(Debug)]
pub struct Destination {
    /// The time that takes the place of the time of writing.
    date: Option<Timestamp>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A regular file, which is replaced as a whole.
    Replaced(PathBuf),
    /// A device or a FIFO.
    Open(File),
}

impl Destination {
    /// Checks that a report can be written to `file`. `epoch` is the value of `SOURCE_DATE_EPOCH`:
    /// seconds that take the place of the time. Opens a device or a FIFO. Blocks; with a FIFO until
    /// a process opens it for reading.
    ///
    /// # Errors
    /// Errors of opening a device and of creating a file in the folder, `NotFound` for a missing
    /// folder, and `InvalidInput` for an epoch that is no time.
    pub fn new(file: &Path, epoch: Option<&OsStr>) -> io::Result<Destination> {
        Ok(Destination { date: epoch.map(time_of).transpose()?, place: Place::at(file)? })
    }

    /// Writes a report. A regular file is replaced as a whole. Blocks.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write(self, certificate: Certificate) -> io::Result<()> {
        let now = || Timestamp::from_second(Timestamp::now().as_second());
        let date = self.date.map_or_else(now, Ok).map_err(io::Error::other)?;
        let text = serde_json::to_string_pretty(&certificate.into_json(date))? + "\n";
        match self.place {
            Place::Open(mut file) => file.write_all(text.as_bytes()),
            Place::Replaced(file) => {
                let mut new = tempfile::NamedTempFile::new_in(folder_of(&file))?;
                new.write_all(text.as_bytes())?;
                new.as_file().set_permissions(Permissions::from_mode(0o644))?;
                new.persist(file).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Place {
    fn at(file: &Path) -> io::Result<Place> {
        match file.metadata() {
            Ok(facts) if facts.is_dir() => {
                Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder, expected a file"))
            }
            // The report takes the place of a link's target, not of the link.
            Ok(facts) if facts.is_file() => Place::in_folder(file.canonicalize()?),
            Ok(_) => Ok(Place::Open(OpenOptions::new().write(true).open(file)?)),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Err(error) if file.is_symlink() => {
                let message = "it is a symbolic link to a missing file; create that file first";
                Err(io::Error::new(error.kind(), message))
            }
            Err(_) => Place::in_folder(file.to_owned()),
        }
    }

    fn in_folder(file: PathBuf) -> io::Result<Place> {
        let folder = folder_of(&file);
        if !folder.is_dir() {
            let message = format!("'{}' is no folder; create it first", folder.display());
            return Err(io::Error::new(ErrorKind::NotFound, message));
        }
        // The file itself is written at the end, so that an interrupted run leaves nothing.
        tempfile::NamedTempFile::new_in(folder)?;
        Ok(Place::Replaced(file))
    }
}

fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn time_of(epoch: &OsStr) -> io::Result<Timestamp> {
    let seconds = epoch.to_str().and_then(|text| text.parse().ok());
    seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()).ok_or_else(|| {
        let epoch = epoch.display();
        let message = format!("SOURCE_DATE_EPOCH is '{epoch}', expected seconds since 1970");
        io::Error::new(ErrorKind::InvalidInput, message)
    })
}
