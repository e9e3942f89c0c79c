//! Running the linked program.

use super::lazy::LazyProgram;
use crate::failure::{Exit, Failure};
use longshore_jitlink::Library;
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is linked, and how.
pub(super) enum Program {
    /// What the entry needs, before it runs.
    Whole(Library),
    /// What is called, when it is.
    Lazy(LazyProgram),
}

impl Program {
    /// Runs constructors, the entry, and at the end of its process exit handlers and destructors: also where the program calls
    /// `exit` itself. Returns only if that fails, or if another process has ended.
    pub(super) fn run(
        &self,
        entry: u64,
        file: &Path,
        arguments: &[OsString],
    ) -> Result<Infallible, Failure> {
        let strings =
            [file.as_os_str()].into_iter().chain(arguments.iter().map(OsString::as_os_str));
        let arguments: Vec<CString> = strings.map(string).collect::<Result<_, _>>()?;
        // SAFETY: the user asks for this program to be run, and for nothing else.
        let ended = unsafe {
            match self {
                Program::Whole(library) => library.run_program(entry, &arguments),
                Program::Lazy(program) => program.files().run_program(entry, &arguments),
            }
        };
        Ok(ended?)
    }
}

fn string(text: &OsStr) -> Result<CString, Failure> {
    CString::new(text.as_bytes())
        .map_err(|error| Failure::new(Exit::Usage, format!("an argument of the program: {error}")))
}
