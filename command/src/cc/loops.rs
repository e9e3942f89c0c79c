//! Work-items that wait for each other as loops: a pass of `longshore-work-items` over the bitcode
//! of a source, between two runs of clang.

use crate::cc::clang::Clang;
use crate::cc::target::Target;
use crate::loops::NO_LLVM;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options by which clang instruments code: the pass would change the counts and the checks.
const INSTRUMENTS: [&str; 6] = [
    "-fprofile-",
    "-fcoverage-",
    "-fsanitize",
    "-fcs-profile-",
    "-fxray",
    "-finstrument-functions",
];

/// Options that make clang write bitcode as it is before all optimisations, with source lines for
/// messages.
pub(super) const TO_BITCODE: [&str; 5] =
    ["-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-gline-tables-only"];
/// Options that make clang compile bitcode.
pub(super) const FROM_BITCODE: [&str; 3] = ["-c", "-x", "ir"];

/// The pass for one target.
pub(super) struct Loops {
    version: u32,
    /// Folder with the compiler's libraries, if it is not the system's.
    folder: Option<PathBuf>,
    /// Whether source lines are only for messages.
    strip: bool,
}

impl Loops {
    /// Returns the pass for a target; `None` for GPUs, for instrumented code, and for code to be
    /// followed in a debugger: the pass keeps no variables, but values.
    pub(super) fn new(target: &Target, clang: &Clang, options: &[OsString]) -> Option<Loops> {
        let begins = |option: &OsString, names: &[&str]| {
            let bytes = option.as_encoded_bytes();
            names.iter().any(|name| bytes.starts_with(name.as_bytes()))
        };
        if target.is_gpu() || options.iter().any(|option| begins(option, &INSTRUMENTS)) {
            return None;
        }
        let debugging = options.iter().rfind(|option| begins(option, &["-g"]));
        let strip = debugging.is_none_or(|option| option == "-g0");
        let level = options.iter().rfind(|option| begins(option, &["-O"]));
        if !strip && level.is_some_and(|level| level == "-O0") {
            return None;
        }
        let real = std::fs::canonicalize(&clang.path).ok();
        let folder = real.and_then(|real| Some(real.parent()?.parent()?.join("lib")));
        Some(Loops { version: clang.major, folder, strip })
    }

    /// Runs the pass in another process. Blocks. Returns whether `to` has loops now; the log has
    /// the reasons.
    pub(super) fn make(&self, bitcode: &Path, to: &Path) -> bool {
        let Ok(own) = std::env::current_exe() else { return false };
        let mut command = Command::new(own);
        command.arg("__loops").arg(self.version.to_string());
        command.args(self.folder.iter().map(|folder| {
            let mut option = OsString::from("--folder=");
            option.push(folder);
            option
        }));
        command.args(self.strip.then_some("--strip")).arg(bitcode).arg(to).stdin(Stdio::null());
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => {
                log::warn!("work-items keep their stacks: no process for LLVM: {error}");
                return false;
            }
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(NO_LLVM.into()) {
            log::info!("work-items that wait for each other keep their stacks: {}", said.trim());
            return false;
        }
        if !output.status.success() {
            let status = output.status;
            log::warn!("work-items keep their stacks: LLVM failed ({status}): {}", said.trim());
            return false;
        }
        let kernels = String::from_utf8_lossy(&output.stdout);
        for line in kernels.lines() {
            match line.split_once('\t') {
                None => log::debug!("the items of kernel '{line}' are loops"),
                Some((kernel, reason)) => {
                    log::info!("each item of kernel '{kernel}' keeps a stack: {reason}");
                }
            }
        }
        !kernels.is_empty()
    }
}
