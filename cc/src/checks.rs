//! Checks of memory accesses: the pass of `longshore-checks` over the bitcode of a source, between
//! two runs of clang.

use crate::clang::Clang;
use crate::passes::{Pass, Passes, Work};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Options by which the header reports shared memory, and places where items meet, to the runtime.
pub(crate) const DEFINES: [&str; 1] = ["-DLONGSHORE_CHECK"];

/// The pass for one compiler.
pub(crate) struct Checks {
    passes: Passes,
    version: u32,
    /// Folder with the compiler's libraries.
    folder: Option<PathBuf>,
    /// Whether source lines are only for messages.
    strip: bool,
}

impl Checks {
    pub(crate) fn new(clang: &Clang, options: &[OsString], passes: &Passes) -> Checks {
        let is_debugging = |option: &&OsString| option.as_encoded_bytes().starts_with(b"-g");
        let debugging = options.iter().rfind(is_debugging);
        let strip = debugging.is_none_or(|option| option == "-g0");
        let (passes, folder) = (passes.clone(), clang.libraries());
        Checks { passes, version: clang.major, folder, strip }
    }

    /// Runs the pass. Blocks.
    ///
    /// # Errors
    /// The problem that the pass reports: the checks cannot be left out silently.
    pub(crate) fn add(&self, bitcode: &Path, to: &Path) -> Result<(), String> {
        let pass = Pass {
            version: self.version,
            folder: self.folder.clone(),
            work: Work::Checks,
            strip: self.strip,
            inputs: vec![bitcode.to_owned()],
            output: to.to_owned(),
            ..Pass::default()
        };
        let output =
            self.passes.run(&pass).map_err(|error| format!("no process for LLVM: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("adding checks failed ({}): {}", output.status, said.trim()))
            }
        }
    }
}
