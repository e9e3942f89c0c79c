//! The shared libraries with LLVM's interfaces: `libLLVMOffload.so` and `libomptarget.so`.
//!
//! Their functions have LLVM's version, `VERS1.0`, and they export nothing else. The Rust compiler
//! gives a shared library its own list of exports without versions, which cannot be combined with a
//! versioned list. So the Rust compiler makes the static library, and the system's linker makes the
//! shared library from it.

use crate::{process, root};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A shared library that is linked from a static library.
#[derive(Debug)]
pub struct SharedLibrary {
    /// The file's name, under which linked programs look for the library.
    pub soname: &'static str,
    /// The name of cargo's static library.
    pub archive: &'static str,
    /// The crate of the static library.
    pub package: &'static str,
    /// The list of exported functions, below the repository.
    exports: &'static str,
}

/// A linker of shared libraries.
#[derive(Debug)]
pub struct Linker {
    /// The compiler that starts the linker.
    pub compiler: PathBuf,
    /// Options before all others.
    pub options: &'static [&'static str],
}

/// LLVM's `libLLVMOffload.so`.
pub const OFFLOAD: SharedLibrary = SharedLibrary {
    soname: "libLLVMOffload.so.23.1",
    archive: "liblongshore_capi.a",
    package: "longshore-capi",
    exports: "capi/exports.map",
};

/// LLVM's `libomptarget.so`.
pub const OPENMP: SharedLibrary = SharedLibrary {
    soname: "libomptarget.so",
    archive: "liblongshore_openmp.a",
    package: "longshore-openmp",
    exports: "openmp/exports.map",
};

/// The names under which programs of clang 15 to 23 look for `libomptarget.so`. Programs of clang
/// 13 and 14 have the plain name.
pub const OPENMP_NAMES: [&str; 9] = [
    "libomptarget.so.15",
    "libomptarget.so.16",
    "libomptarget.so.17",
    "libomptarget.so.18.1",
    "libomptarget.so.19.1",
    "libomptarget.so.20.1",
    "libomptarget.so.21.1",
    "libomptarget.so.22.1",
    "libomptarget.so.23.1",
];

/// Libraries of the system that the static libraries need.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

impl SharedLibrary {
    /// Links the static library that cargo has built into `folder`, unless the shared library there
    /// is newer. Returns the shared library. Any number of processes and threads may call this
    /// function at once.
    ///
    /// # Errors
    /// No static library in `folder`, or a linker that fails.
    pub fn link(&self, folder: &Path) -> Result<PathBuf> {
        self.link_by(&Linker::for_this_machine(), folder)
    }

    /// Does the same as [`SharedLibrary::link`] with a given linker. With options, always links.
    ///
    /// # Errors
    /// See [`SharedLibrary::link`].
    pub fn link_by(&self, linker: &Linker, folder: &Path) -> Result<PathBuf> {
        // Threads of one process would use the same name for the unfinished file.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (archive, library) = (folder.join(self.archive), folder.join(self.soname));
        let exports = root().join(self.exports);
        let newest = changed(&archive).max(changed(&exports)).filter(|_| archive.exists());
        let Some(newest) = newest else {
            let package = self.package;
            bail!("no static library {}: `cargo build -p {package}` builds it", archive.display());
        };
        // A folder with libraries of other options may have one of earlier options.
        let may_be_current = linker.options.is_empty();
        if may_be_current && changed(&library).is_some_and(|made| made > newest) {
            return Ok(library);
        }
        let unfinished = folder.join(format!("{}.{}", self.soname, std::process::id()));
        let options = linker.options;
        let mut linker = Command::new(&linker.compiler);
        linker.args(options).arg("-shared").arg("-o").arg(&unfinished);
        linker.arg("-Wl,--whole-archive").arg(&archive).arg("-Wl,--no-whole-archive");
        linker.arg(format!("-Wl,-soname,{}", self.soname));
        linker.arg(format!("-Wl,--version-script={}", exports.display()));
        // Results live until the end of the process, and threads of plugins may run code of the
        // library.
        linker.args(["-Wl,-z,nodelete", "-Wl,-z,relro,-z,now", "-Wl,-z,defs", "-Wl,--gc-sections"]);
        process::run_quietly(linker.args(SYSTEM))?;
        std::fs::rename(&unfinished, &library).with_context(|| library.display().to_string())?;
        Ok(library)
    }
}

impl Linker {
    /// Returns the linker of this machine's programs.
    pub(crate) fn for_this_machine() -> Linker {
        let compiler = std::env::var_os("CC").map_or_else(|| "cc".into(), PathBuf::from);
        Linker { compiler, options: &[] }
    }
}

/// Puts a link to `library` under each of [`OPENMP_NAMES`] and the plain name into `folder`, which
/// is created. Programs find the library by `LD_LIBRARY_PATH=folder`.
///
/// # Errors
/// Links that cannot be made.
pub fn link_openmp_names(library: &Path, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for name in OPENMP_NAMES.into_iter().chain([OPENMP.soname]) {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|target| target == library) || link == library {
            continue;
        }
        let unfinished = folder.join(format!("{name}.{}", std::process::id()));
        symlink(library, &unfinished).with_context(|| unfinished.display().to_string())?;
        std::fs::rename(&unfinished, &link).with_context(|| link.display().to_string())?;
    }
    Ok(())
}

fn changed(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()
}
