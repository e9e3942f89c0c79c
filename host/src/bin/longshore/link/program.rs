//! Running the linked program.

use crate::failure::{Exit, Failure};
use longshore_jitlink::Library;
use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Runs constructors, the entry, and at the end of its process exit handlers and destructors: also where the program calls
/// `exit` itself. Returns only if that fails, or if another process has ended.
pub(super) fn run(
    library: &Library,
    entry: u64,
    file: &Path,
    arguments: &[OsString],
) -> Result<Infallible, Failure> {
    let strings = [file.as_os_str()].into_iter().chain(arguments.iter().map(OsString::as_os_str));
    let arguments: Vec<CString> = strings.map(string).collect::<Result<_, _>>()?;
    // SAFETY: the user asks for this program to be run, and for nothing else.
    Ok(unsafe { library.run_program(entry, &arguments) }?)
}

fn string(text: &OsStr) -> Result<CString, Failure> {
    CString::new(text.as_bytes())
        .map_err(|error| Failure::new(Exit::Usage, format!("an argument of the program: {error}")))
}
