//! `libLLVMOffload.so`: the C API of LLVM Offload as a shared library.
//!
//! Its functions have LLVM's version, `VERS1.0`, and it exports nothing else. The Rust compiler
//! gives a shared library its own list of exports without versions, which cannot be combined with a
//! versioned list. So the Rust compiler makes the static library, and the system's linker makes the
//! shared library from it.

use crate::{process, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The name under which linked programs look for the library.
pub const SONAME: &str = "libLLVMOffload.so.23.1";
/// The name of cargo's static library.
pub const ARCHIVE: &str = "liblongshore_capi.a";
/// Libraries of the system that the static library needs.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

/// Links the static library that cargo has built into `folder`, unless the shared library there is
/// newer. Returns the shared library. Any number of processes and threads may call this function at
/// once.
///
/// # Errors
/// No static library in `folder`, or a linker that fails.
pub fn link(folder: &Path) -> Result<PathBuf> {
    // Threads of one process would use the same name for the unfinished file.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (archive, library) = (folder.join(ARCHIVE), folder.join(SONAME));
    let exports = root().join("capi/exports.map");
    let Some(newest) = changed(&archive).max(changed(&exports)).filter(|_| archive.exists()) else {
        bail!("no static library {}: `cargo build -p longshore-capi` builds it", archive.display());
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
    // Results live until the end of the process, and threads of plugins may run code of the
    // library.
    linker.args(["-Wl,-z,nodelete", "-Wl,-z,relro,-z,now", "-Wl,-z,defs", "-Wl,--gc-sections"]);
    process::run_quietly(linker.args(SYSTEM))?;
    std::fs::rename(&unfinished, &library).with_context(|| library.display().to_string())?;
    Ok(library)
}

fn changed(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()
}
