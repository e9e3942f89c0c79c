//! Reading of files that users name. Endless and oversized files are refused.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// An open regular file or pipe: a file with an end.
pub struct WholeFile {
    file: File,
    facts: Metadata,
}

/// Reads a file, or a pipe until its writers close it. Blocks while a pipe has writers.
///
/// # Errors
/// `FileTooLarge` for more than `most` bytes, `OutOfMemory`; errors of [`WholeFile::open`] and
/// [`WholeFile::read`].
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    WholeFile::open(path)?.read(most)
}

impl WholeFile {
    /// Opens a file or a pipe for reading. Does not wait for a writer.
    ///
    /// # Errors
    /// `InvalidInput` for a folder, a device or a socket; errors of the system.
    pub fn open(path: &Path) -> io::Result<WholeFile> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let facts = file.metadata()?;
        let kind = facts.file_type();
        let what = match () {
            () if kind.is_file() || kind.is_fifo() => return Ok(WholeFile { file, facts }),
            () if kind.is_dir() => "a folder",
            () if kind.is_char_device() => "a character device",
            () if kind.is_block_device() => "a block device",
            () => "a socket",
        };
        Err(Error::new(ErrorKind::InvalidInput, format!("it is {what}, expected a file")))
    }

    /// Returns the regular file, for mapping; `None` for a pipe.
    pub fn regular(&self) -> Option<&File> {
        self.facts.is_file().then_some(&self.file)
    }

    /// Reads all bytes, at most `most`. Blocks while a pipe has writers.
    ///
    /// # Errors
    /// `FileTooLarge` for more than `most` bytes, `OutOfMemory`, `InvalidInput` for a FIFO without
    /// a writer; errors of the system.
    pub fn read(mut self, most: u64) -> io::Result<Vec<u8>> {
        let too_large = |has: &str| {
            Error::new(ErrorKind::FileTooLarge, format!("it has {has}, expected at most {most}"))
        };
        let mut bytes = match self.regular() {
            Some(_) => Vec::new(),
            None => self.first_of_pipe()?,
        };
        let expected = if self.facts.is_file() { self.facts.len() } else { 0 };
        if expected > most {
            return Err(too_large(&format!("{expected} bytes")));
        }
        bytes.try_reserve_exact(usize::try_from(expected).unwrap_or(usize::MAX))?;
        // Files of the system, as in `/proc`, have more bytes than their metadata reports.
        let left = most.saturating_add(1).saturating_sub(bytes.len() as u64);
        self.file.take(left).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > most {
            true => Err(too_large("more bytes")),
            false => Ok(bytes),
        }
    }

    /// Reads the bytes available in a pipe, and makes later reads wait for the pipe's writers.
    fn first_of_pipe(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4096];
        let read = match self.file.read(&mut bytes) {
            Ok(0) => {
                let what = "it is a FIFO that no process writes to";
                return Err(Error::new(ErrorKind::InvalidInput, what));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            read => read?,
        };
        bytes.truncate(read);
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        rustix::fs::fcntl_setfl(&self.file, flags - rustix::fs::OFlags::NONBLOCK)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_read_up_to_the_size_that_is_expected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"12345").unwrap();
        assert_eq!(read_at_most(file.path(), 5).unwrap(), b"12345");
        let error = read_at_most(file.path(), 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it has 5 bytes, expected at most 4");
        // A file of 1 TiB, almost all of it a hole.
        file.as_file().set_len(1 << 40).unwrap();
        assert_eq!(read_at_most(file.path(), 1 << 32).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let error = read_at_most("/proc/self/status".as_ref(), 3).unwrap_err();
        assert_eq!(error.to_string(), "it has more bytes, expected at most 3");
        assert!(!read_at_most("/proc/self/status".as_ref(), 1 << 20).unwrap().is_empty());
    }

    #[test]
    fn endless_files_are_refused_by_their_kind() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        for (path, what) in [
            (Path::new("/dev/zero"), "it is a character device, expected a file"),
            (folder.path(), "it is a folder, expected a file"),
            (&fifo, "it is a FIFO that no process writes to"),
        ] {
            assert_eq!(read_at_most(path, 8).unwrap_err().to_string(), what);
        }
    }

    #[test]
    fn a_pipe_is_read_until_its_writers_close_it() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let writes = std::thread::spawn(move || {
            for _ in 0..3 {
                writer.write_all(&[7; 5000]).unwrap();
            }
        });
        assert_eq!(read_at_most(path.as_ref(), 15_000).unwrap(), [7; 15_000]);
        writes.join().unwrap();
    }
}
