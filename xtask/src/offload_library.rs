//! `libLLVMOffload.so`: the C API of LLVM Offload as a shared library.
//!
//! Its functions have LLVM's version, `VERS1.0`, and it exports nothing else. The Rust compiler gives a shared library
//! a list of exports of its own, which has no versions and cannot be joined with one that has; so it makes the static
//! library, and the system's linker this one of that.

use crate::{process, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// What programs that were linked with it look for.
pub const SONAME: &str = "libLLVMOffload.so.23.1";
/// The static library as cargo names it.
pub const ARCHIVE: &str = "liblongshore_capi.a";
/// What the static library needs of the system.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

/// Links what cargo has built into a folder, unless the shared library there is newer. Any number of processes and threads
/// may do so at once. Answers the library.
///
/// # Errors
/// No static library there; a linker that fails.
pub fn link(folder: &Path) -> Result<PathBuf> {
    // Threads of a process would take the same name for what is not finished.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (archive, library) = (folder.join(ARCHIVE), folder.join(SONAME));
    let exports = root().join("capi/exports.map");
    let Some(newest) = changed(&archive).max(changed(&exports)).filter(|_| archive.exists()) else {
        bail!("{} is not there: `cargo build -p longshore-capi` makes it", archive.display());
    };
    if changed(&library).is_some_and(|made| made > newest) {
        return Ok(library);
    }
    let unfinished = folder.join(format!("{SONAME}.{}", std::process::id()));
    let mut linker = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    linker.arg("-shared").arg("-o").arg(&unfinished);
    linker.arg("-Wl,--whole-archive").arg(&archive).arg("-Wl,--no-whole-archive");
    linker.arg(format!("-Wl,-soname,{SONAME}"));
    linker.arg(format!("-Wl,--version-script={}", exports.display()));
    // Results live as long as the process, and threads of plugins may be in it.
    linker.args(["-Wl,-z,nodelete", "-Wl,-z,relro,-z,now", "-Wl,-z,defs", "-Wl,--gc-sections"]);
    process::run_quietly(linker.args(SYSTEM))?;
    std::fs::rename(&unfinished, &library).with_context(|| library.display().to_string())?;
    Ok(library)
}

fn changed(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()
}
