//! Linking relocatable objects, by LLVM's linker: HIP takes none.

use longshore_plugin_api::{Error, ErrorCode, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

/// Where the linker may be, the first that is there is taken.
const LINKERS: [&str; 7] = [
    "ld.lld",
    "/opt/rocm/llvm/bin/ld.lld",
    "ld.lld-22",
    "ld.lld-21",
    "ld.lld-20",
    "ld.lld-19",
    "ld.lld-18",
];

/// Links an object to a code object that HIP loads. Blocks: it runs a program, `linker` if the user names
/// one.
///
/// # Errors
/// `HostToolNotFound` without a linker; `LinkFailure` with its words; `HostIo` if there is no place for its
/// files.
pub(crate) fn link(object: &[u8], linker: Option<&str>) -> Result<Vec<u8>> {
    if is_privileged() {
        let message = "a relocatable object needs a linker, and a set-uid process starts none";
        return Err(Error::new(ErrorCode::HostToolNotFound, message));
    }
    let folder = tempfile::Builder::new().prefix("longshore-link-").tempdir();
    let folder = folder.map_err(|error| failed("making a folder for the linker", &error))?;
    let (from, to) = (folder.path().join("object.o"), folder.path().join("linked.co"));
    std::fs::write(&from, object).map_err(|error| failed("writing an object to link", &error))?;
    let output = run(linker, &from, &to)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let message = format!("linking a relocatable object: {}", said.trim());
        return Err(Error::new(ErrorCode::LinkFailure, message));
    }
    std::fs::read(&to).map_err(|error| failed("reading what was linked", &error))
}

/// The process may do more than whoever started it: what they have put on its path is not run.
fn is_privileged() -> bool {
    // SAFETY: the function has no precondition.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn run(linker: Option<&str>, from: &Path, to: &Path) -> Result<Output> {
    let candidates = linker.map_or_else(|| LINKERS.to_vec(), |named| vec![named]);
    for program in &candidates {
        let mut command = Command::new(program);
        command.args(["-shared", "-z", "defs", "-o"]).arg(to).arg(from);
        match command.output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            ran => return ran.map_err(|error| failed(&format!("starting {program}"), &error)),
        }
    }
    Err(Error::new(
        ErrorCode::HostToolNotFound,
        format!(
            "a relocatable object needs a linker, and there is none of {}: install lld, name one in \
             LONGSHORE_AMDGPU_LINKER, or link the image with `ld.lld -shared`",
            candidates.join(", ")
        ),
    ))
}

fn failed(doing: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorCode::HostIo, format!("{doing}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_linker_the_message_says_what_to_do() {
        let error = link(b"", Some("/nowhere/ld.lld")).unwrap_err();
        assert_eq!(error.code(), ErrorCode::HostToolNotFound);
        assert!(error.message().contains("LONGSHORE_AMDGPU_LINKER"), "{error}");
    }

    #[test]
    fn what_the_linker_says_is_in_the_message() {
        let error = link(b"no object", Some("false")).unwrap_err();
        assert_eq!(error.code(), ErrorCode::LinkFailure);
    }
}
