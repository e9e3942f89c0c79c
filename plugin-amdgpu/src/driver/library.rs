//! Lookup of HIP's library.

use libloading::Library;
use std::error::Error;

/// The names of HIP's library, the newest first.
pub(crate) const NAMES: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// Opens HIP's library, or the one at `path` instead.
///
/// # Errors
/// The reason why no library can be opened, as text for the user.
pub(super) fn open(path: Option<&str>) -> Result<Library, String> {
    if let Some(path) = path {
        return open_one(path).map_err(|why| format!("{path} cannot be opened: {why}"));
    }
    let mut reasons = Vec::new();
    for name in NAMES {
        match open_one(name) {
            Ok(library) => return Ok(library),
            Err(why) if is_absent(name, &why) => {}
            Err(why) => reasons.push(format!("{name} cannot be opened: {why}")),
        }
    }
    Err(match reasons.is_empty() {
        true => format!("none of {} is on this machine", NAMES.join(", ")),
        false => reasons.join("; "),
    })
}

fn open_one(path: &str) -> Result<Library, String> {
    // SAFETY: a program that uses this backend requests HIP's library, so its initializers may run.
    unsafe { Library::new(path) }.map_err(|error| match error.source() {
        // The dynamic loader's message.
        Some(why) => why.to_string(),
        None => error.to_string(),
    })
}

/// Returns whether the loader's message means that the file does not exist, rather than that it is
/// unusable.
fn is_absent(name: &str, why: &str) -> bool {
    why.starts_with(name) && why.ends_with("No such file or directory")
}
