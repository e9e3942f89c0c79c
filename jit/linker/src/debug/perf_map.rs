//! The perf map, `/tmp/perf-<pid>.map`: a text file in which `perf report` looks up addresses that
//! lie in no file.
//!
//! The map only grows. When code is unlinked and its memory reused, the map names both functions
//! for one address; a [jitdump](super::jitdump) has times, and can distinguish them.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::LinkedFunction;
use crate::{Error, Result};

/// The perf map of this process. Dropping it leaves the file, which is read after the end of the
/// program.
#[derive(Debug)]
pub struct PerfMap {
    file: File,
}

impl PerfMap {
    /// Creates the map, readable by its user alone, or opens an existing one for appending: other
    /// users of the format in this process share it.
    ///
    /// # Errors
    /// [`Error::Open`] if the file cannot be created, or if it exists and is not a plain file that
    /// only this user can write to.
    pub fn open() -> Result<Self> {
        Self::at(&PathBuf::from(format!("/tmp/perf-{}.map", std::process::id())))
    }

    /// Appends one line for each function, all with one write, so that lines of several threads do
    /// not mix.
    ///
    /// # Errors
    /// The operating system's error if the file cannot be written to.
    pub fn add(&self, functions: &[LinkedFunction<'_>]) -> io::Result<()> {
        (&self.file).write_all(lines(functions).as_bytes())
    }

    fn at(path: &Path) -> Result<Self> {
        let open = || match create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_existing(path),
            created => created,
        };
        match open() {
            Ok(file) => Ok(Self { file }),
            Err(error) => {
                Err(Error::Open { path: path.display().to_string(), problem: error.to_string() })
            }
        }
    }
}

fn lines(functions: &[LinkedFunction<'_>]) -> String {
    let mut lines = String::new();
    for function in functions {
        let name = function.name.replace(char::is_control, "?");
        writeln!(lines, "{:x} {:x} {name}", function.address, function.size)
            .expect("a string takes any text");
    }
    lines
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

/// Opens an existing map of this user. Any user can create a file of this name in `/tmp`, so
/// another user's file is refused.
fn open_existing(path: &Path) -> io::Result<File> {
    // Without `O_NONBLOCK`, opening a FIFO waits for a reader.
    let file = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_file() && found.nlink() == 1 && ours && found.mode() & 0o022 == 0 {
        Ok(file)
    } else {
        Err(io::Error::other("exists, and is not a plain file that only this user can write to"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn function(name: &str, address: u64, size: u64) -> LinkedFunction<'_> {
        LinkedFunction { name, address, size, code: &[] }
    }

    #[test]
    fn each_function_is_a_line_with_start_size_and_name_in_hexadecimal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf.map");
        let map = PerfMap::at(&path).unwrap();
        map.add(&[function("first", 0x7f00_0000_1000, 0x20), function("operator new", 0x1000, 10)])
            .unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "7f0000001000 20 first\n1000 a operator new\n"
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_name_cannot_forge_another_line() {
        assert_eq!(lines(&[function("a\n0 ffff b", 1, 2)]), "1 2 a?0 ffff b\n");
    }

    #[test]
    fn a_second_writer_appends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf.map");
        let (first, second) = (PerfMap::at(&path).unwrap(), PerfMap::at(&path).unwrap());
        first.add(&[function("a", 1, 1)]).unwrap();
        second.add(&[function("b", 2, 1)]).unwrap();
        first.add(&[function("c", 3, 1)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1 1 a\n2 1 b\n3 1 c\n");
    }

    #[test]
    fn lines_of_many_threads_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf.map");
        let map = PerfMap::at(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let map = &map;
                scope.spawn(move || {
                    (0..50).for_each(|_| map.add(&[function("name", thread, 1)]).unwrap())
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 8 * 50);
        assert!(text.lines().all(|line| line.ends_with(" 1 name") && line.len() == 8), "{text}");
    }

    #[test]
    fn files_that_others_prepared_are_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();

        let link = folder.path().join("link");
        symlink(&victim, &link).unwrap();
        let hard_link = folder.path().join("hard link");
        fs::hard_link(&victim, &hard_link).unwrap();
        let writable = folder.path().join("writable");
        fs::write(&writable, "").unwrap();
        fs::set_permissions(&writable, PermissionsExt::from_mode(0o622)).unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();

        for path in [link, hard_link, writable, fifo] {
            assert!(matches!(PerfMap::at(&path), Err(Error::Open { .. })), "{}", path.display());
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
}
