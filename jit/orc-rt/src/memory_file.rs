//! Files in memory, within the limit on file sizes.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io::{self, Write};

/// Creates a file in memory with these contents; its position is at the end.
///
/// # Errors
/// Every error of [`check_size`] and of the system.
pub fn create(name: &str, content: &[u8]) -> io::Result<File> {
    check_size(content.len() as u64)?;
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file)
}

/// Refuses a size above the limit on file sizes: the kernel kills a process that writes a larger
/// file, even in memory.
///
/// # Errors
/// `FileTooLarge`, with both sizes.
pub fn check_size(bytes: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if bytes > limit => {
            let message =
                format!("the file has {bytes} bytes, expected at most {limit} (`ulimit -f`)");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenName;
    use std::os::fd::AsFd;

    const LIMITED: &str = "LONGSHORE_TEST_LIMITED";

    /// Runs in a process of its own, since the limit applies to the whole process.
    #[test]
    fn a_file_above_the_limit_is_an_error_and_not_the_end_of_the_process() {
        if std::env::var_os(LIMITED).is_none() {
            let own = std::env::current_exe().unwrap();
            let name = "memory_file::tests::a_file_above_the_limit_is_an_error_and_not_the_end_of_the_process";
            let mut child = std::process::Command::new(own);
            let output = child.args(["--exact", name]).env(LIMITED, "1").output().unwrap();
            return assert!(output.status.success(), "{output:?}");
        }
        let file = create("kept", &[1; 4096]).unwrap();
        let limit = rustix::process::Rlimit { current: Some(1024), maximum: Some(1024) };
        rustix::process::setrlimit(Resource::Fsize, limit).unwrap();
        assert!(create("small", &[1; 1024]).is_ok());
        let error = create("large", &[1; 1025]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("1025 bytes"), "{error}");
        let error = OpenName::copied(file.as_fd()).unwrap_err();
        assert!(error.to_string().contains("`ulimit -f`"), "{error}");
    }
}
