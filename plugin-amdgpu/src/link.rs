//! Linking relocatable objects with LLVM's linker, as HIP does not load them.

mod process;
#[cfg(test)]
mod tests;

use longshore_plugin_api::{Error, ErrorCode, Result};
use process::ProcessError;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Names of the linker. The first existing one is used.
const LINKERS: [&str; 7] = [
    "ld.lld",
    "/opt/rocm/llvm/bin/ld.lld",
    "ld.lld-22",
    "ld.lld-21",
    "ld.lld-20",
    "ld.lld-19",
    "ld.lld-18",
];

/// Time limit for linking one object, after which the linker is killed.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Links an object to a code object that HIP loads. Runs `linker`, or one of [`LINKERS`] if the
/// user names none. Blocks.
///
/// # Errors
/// `HostToolNotFound` without a linker; `LinkFailure` with its messages, or if it does not end in
/// time; `HostIo` if its files cannot be written.
pub(crate) fn link(object: &[u8], linker: Option<&str>) -> Result<Vec<u8>> {
    if is_privileged() {
        let message = "a relocatable object needs a linker, and a set-uid process starts none";
        return Err(Error::new(ErrorCode::HostToolNotFound, message));
    }
    run(&find(linker, &search_path())?, object, TIME_LIMIT)
}

/// Returns whether the process has more privileges than its real user. Such a process must not run
/// programs from that user's `PATH`.
fn is_privileged() -> bool {
    // SAFETY: the function has no precondition.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the folders to search for programs, in the form of `PATH`; the C library's default if
/// `PATH` is not set.
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"))
}

/// Finds the linker. Relative folders of the path are skipped: their contents depend on the current
/// folder.
///
/// # Errors
/// `HostToolNotFound` if no candidate exists.
fn find(linker: Option<&str>, path: &OsStr) -> Result<PathBuf> {
    let candidates = linker.map_or_else(|| LINKERS.to_vec(), |named| vec![named]);
    let found = candidates.iter().find_map(|name| locate(name, path));
    found.ok_or_else(|| {
        let message = format!(
            "a relocatable object needs a linker, and none of {} exists: install lld, name one in \
             LONGSHORE_AMDGPU_LINKER, or link the image with `ld.lld -shared`",
            candidates.join(", ")
        );
        Error::new(ErrorCode::HostToolNotFound, message)
    })
}

/// Returns the file of a program: `name` itself if it has a folder, or else a file in one of these
/// folders.
fn locate(name: &str, path: &OsStr) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| file.exists());
    }
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    const EXECUTABLE: u32 = 0o111;
    file.metadata().is_ok_and(|facts| facts.is_file() && facts.mode() & EXECUTABLE != 0)
}

/// Links with this program.
fn run(program: &Path, object: &[u8], limit: Duration) -> Result<Vec<u8>> {
    let folder = tempfile::Builder::new().prefix("longshore-link-").tempdir();
    let folder = folder.map_err(|error| failed("making a folder for the linker", &error))?;
    let (from, to) = (folder.path().join("object.o"), folder.path().join("linked.co"));
    std::fs::write(&from, object).map_err(|error| failed("writing an object to link", &error))?;
    let mut command = Command::new(program);
    command.args(["-shared", "-z", "defs", "-o"]).arg(&to).arg(&from);
    let ended = process::run(command, &folder.path().join("messages"), limit);
    let ended = ended.map_err(|error| match error {
        ProcessError::TimedOut => {
            refused(&format!("{} did not end within {} s", program.display(), limit.as_secs_f64()))
        }
        ProcessError::System(error) => failed(&format!("running {}", program.display()), &error),
    })?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.messages);
        return Err(refused(said.trim()));
    }
    std::fs::read(&to).map_err(|error| failed("reading the linked image", &error))
}

fn refused(why: &str) -> Error {
    Error::new(ErrorCode::LinkFailure, format!("linking a relocatable object: {why}"))
}

fn failed(doing: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorCode::HostIo, format!("{doing}: {error}"))
}
