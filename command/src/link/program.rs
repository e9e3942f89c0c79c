//! The run of the linked program.

use super::lazy::LazyProgram;
use crate::failure::{Exit, Failure};
use longshore_jitlink::Library;
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A linked program.
pub(super) enum Program {
    /// A program linked before it runs, with everything that the entry needs.
    Whole(Library),
    /// A program of which each part is linked at its first call.
    Lazy(LazyProgram),
}

impl Program {
    /// Runs constructors and the entry, and at the end of the process exit handlers and
    /// destructors, also if the program calls `exit` itself. Returns only on failure, or when an
    /// executor has ended.
    pub(super) fn run(
        &self,
        entry: u64,
        file: &Path,
        arguments: &[OsString],
    ) -> Result<Infallible, Failure> {
        let strings =
            [file.as_os_str()].into_iter().chain(arguments.iter().map(OsString::as_os_str));
        let arguments: Vec<CString> = strings.map(string).collect::<Result<_, _>>()?;
        // SAFETY: the user has started this process to run the program.
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
    CString::new(text.as_bytes()).map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot pass an argument to the program: {error}"))
    })
}
