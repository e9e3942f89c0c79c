//! Checks of memory accesses: the pass of `longshore-checks` over the bitcode of a source, between
//! two runs of clang.

use crate::cc::clang::Clang;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options by which the header reports shared memory, and places where items meet, to the runtime.
pub(super) const DEFINES: [&str; 1] = ["-DLONGSHORE_CHECK"];

/// The pass for one compiler.
pub(super) struct Checks {
    version: u32,
    /// Folder with the compiler's libraries.
    folder: Option<PathBuf>,
    /// Whether source lines are only for messages.
    strip: bool,
}

impl Checks {
    pub(super) fn new(clang: &Clang, options: &[OsString]) -> Checks {
        let is_debugging = |option: &&OsString| option.as_encoded_bytes().starts_with(b"-g");
        let debugging = options.iter().rfind(is_debugging);
        let strip = debugging.is_none_or(|option| option == "-g0");
        Checks { version: clang.major, folder: clang.libraries(), strip }
    }

    /// Runs the pass in another process. Blocks.
    ///
    /// # Errors
    /// The problem that the process reports: the checks cannot be left out silently.
    pub(super) fn add(&self, bitcode: &Path, to: &Path) -> Result<(), String> {
        let own =
            std::env::current_exe().map_err(|error| format!("no process for LLVM: {error}"))?;
        let mut command = Command::new(own);
        command.arg("__loops").arg(self.version.to_string()).arg("--checks");
        command.args(self.folder.iter().map(|folder| {
            let mut option = OsString::from("--folder=");
            option.push(folder);
            option
        }));
        command.args(self.strip.then_some("--strip")).arg(bitcode).arg(to).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("no process for LLVM: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("adding checks failed ({}): {}", output.status, said.trim()))
            }
        }
    }
}
