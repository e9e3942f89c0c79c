//! Code objects for AMD GPUs: objects that LLD has linked.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::CompileError;

/// Links an object to a code object by LLD of LLVM `major`, from `folders` or the folder of
/// Debian's packages. Blocks until that is done.
pub(crate) fn link(
    object: &[u8],
    major: u32,
    folders: &[PathBuf],
) -> Result<Vec<u8>, CompileError> {
    let program = find(major, folders)?;
    let shown = program.display().to_string();
    let failed = |error: io::Error| CompileError::Linker(format!("'{shown}': {error}"));
    let mut command = Command::new(&program);
    command.args(["-shared", "--no-undefined", "-o", "-", "/proc/self/fd/0"]);
    command.stdin(memory_file(object).map_err(failed)?);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.spawn().and_then(Child::wait_with_output).map_err(failed)?;
    if output.status.success() && !output.stdout.is_empty() {
        return Ok(output.stdout);
    }
    let (said, status) = (String::from_utf8_lossy(&output.stderr), output.status);
    let said = said.trim();
    Err(CompileError::Linker(format!("'{shown}' links no code object ({status}): {said}")))
}

/// Returns LLD of this version.
fn find(major: u32, folders: &[PathBuf]) -> Result<PathBuf, CompileError> {
    let numbered = folders.iter().map(|folder| folder.join(format!("ld.lld-{major}")));
    let debian = Path::new("/usr/lib").join(format!("llvm-{major}/bin/ld.lld"));
    let mut candidates = numbered.chain([debian]);
    if let Some(found) = candidates.find(|candidate| candidate.is_file()) {
        return Ok(found);
    }
    let plain = folders.iter().map(|folder| folder.join("ld.lld"));
    let is_wanted = |program: &PathBuf| program.is_file() && version(program) == Some(major);
    plain.into_iter().find(is_wanted).ok_or_else(|| {
        CompileError::Linker(format!(
            "code objects need the linker ld.lld of LLVM {major}, which is not installed: on Debian \
             and Ubuntu it is in the package lld-{major}"
        ))
    })
}

/// Returns the major version that LLD reports.
fn version(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split("LLD ").nth(1)?.split('.').next()?.parse().ok()
}

fn memory_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("longshore-object", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
