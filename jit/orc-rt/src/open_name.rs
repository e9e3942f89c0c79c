//! Names by which the dynamic linker opens unnamed files.

use crate::memory_file;
use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// A name of an open file. The name is valid while the descriptor is open and this lives.
///
/// The name is `/proc/PID/fd/N`. A debugger opens the process's libraries by their names and finds
/// the same file there, unlike by `/proc/self`. If `/proc` is not mounted, or belongs to other
/// processes, the file is copied into a named one, in a memory-backed folder if possible. Dropping
/// the name removes the copy.
#[derive(Debug)]
pub struct OpenName {
    path: CString,
    copy: Option<PathBuf>,
}

impl OpenName {
    /// Returns a name of a readable file.
    ///
    /// # Errors
    /// Every error of copying the file, where a copy is needed.
    pub fn for_file(file: BorrowedFd<'_>) -> io::Result<Self> {
        let number = file.as_raw_fd();
        // The process's number in `/proc`, which in a namespace of processes may differ from the
        // number that the process sees.
        let process = std::fs::read_link("/proc/self").unwrap_or_default();
        let paths = [&process, Path::new("self")]
            .map(|process| Path::new("/proc").join(process).join("fd").join(number.to_string()));
        match paths.into_iter().find(|path| is_same(file, path)) {
            Some(path) => Ok(Self { path: terminated(path.into_os_string())?, copy: None }),
            None => Self::copied(file),
        }
    }

    /// Returns the name.
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// Returns whether the name contains the descriptor's number: another file with the number
    /// later has the same name.
    pub fn is_by_number(&self) -> bool {
        self.copy.is_none()
    }

    pub(crate) fn copied(file: BorrowedFd<'_>) -> io::Result<Self> {
        let own = std::env::temp_dir();
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for folder in [Path::new("/dev/shm"), &own, Path::new("/tmp")] {
            match Self::copied_into(folder, file) {
                Ok(name) => return Ok(name),
                Err(error) => last = error,
            }
        }
        Err(io::Error::new(last.kind(), format!("no /proc, and no folder for a copy: {last}")))
    }

    fn copied_into(folder: &Path, file: BorrowedFd<'_>) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        memory_file::check_size(rustix::fs::fstat(file)?.st_size.unsigned_abs())?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("longshore-{}-{number}", process::id()));
        let mut options = File::options();
        let mut copy = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let name = Self { path: terminated(path.clone().into_os_string())?, copy: Some(path) };
        let mut source = File::from(file.try_clone_to_owned()?);
        // Duplicates of a descriptor share its position, so copying starts at the beginning.
        io::Seek::rewind(&mut source)?;
        io::copy(&mut source, &mut copy)?;
        Ok(name)
    }
}

impl Drop for OpenName {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            let _ = std::fs::remove_file(copy);
        }
    }
}

/// Returns whether a path leads to an open file.
fn is_same(file: BorrowedFd<'_>, path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    let own = rustix::fs::fstat(file.as_fd());
    own.is_ok_and(|own| (own.st_dev, own.st_ino) == (found.dev(), found.ino()))
}

fn terminated(path: OsString) -> io::Result<CString> {
    CString::new(path.into_vec()).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;

    fn file() -> File {
        let file = rustix::fs::memfd_create("open name", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(file);
        file.write_all(b"content").unwrap();
        file
    }

    fn content(name: &OpenName) -> Vec<u8> {
        std::fs::read(std::ffi::OsStr::from_bytes(name.path().to_bytes())).unwrap()
    }

    #[test]
    fn a_file_has_a_name_that_other_processes_find_too() {
        let file = file();
        let name = OpenName::for_file(file.as_fd()).unwrap();
        let expected = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd());
        assert_eq!(name.path().to_str(), Ok(expected.as_str()));
        assert!(name.is_by_number());
        assert_eq!(content(&name), b"content");
    }

    #[test]
    fn a_file_has_that_name_also_in_a_process_that_sees_another_number_of_its_own() {
        let file = file();
        // SAFETY: the children make names of files and end.
        let code = unsafe {
            in_child(|| match libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) {
                0 => in_child(|| named_by_the_number_of_proc(&file)),
                _ => NOT_PERMITTED,
            })
        };
        match code {
            NOT_PERMITTED => println!("this system permits no namespaces; nothing was tried"),
            code => assert_eq!(code, 0),
        }
    }

    const NOT_PERMITTED: i32 = 77;

    /// Returns 0 if a file's name contains this process's number in `/proc`, and that number
    /// differs from the one the process sees.
    fn named_by_the_number_of_proc(file: &File) -> i32 {
        let number = std::fs::read_link("/proc/self").unwrap();
        let name = OpenName::for_file(file.as_fd()).unwrap();
        let expected = format!("/proc/{}/fd/{}", number.display(), file.as_raw_fd());
        let is_expected = name.path().to_str() == Ok(expected.as_str());
        let sees_another = number != Path::new(&process::id().to_string());
        i32::from(!is_expected) + 2 * i32::from(!sees_another)
    }

    /// Returns the exit code of a child that runs `code`.
    ///
    /// # Safety
    /// The child must use nothing that another thread may have locked.
    unsafe fn in_child(code: impl FnOnce() -> i32) -> i32 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(code());
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn a_copy_has_the_content_and_goes_with_its_name() {
        let file = file();
        let [first, second] = [0, 1].map(|_| OpenName::copied(file.as_fd()).unwrap());
        assert!(first.path() != second.path() && !first.is_by_number());
        assert_eq!([content(&first), content(&second)], [b"content", b"content"]);
        let path = first.copy.clone().unwrap();
        drop(first);
        assert!(!path.exists());
        assert_eq!(content(&second), b"content");
    }
}
