//! Runs of the test programs on our library, and on LLVM's.

use super::compile::{self, Compiled};
use libtest_mimic::{Completion, Failed};
use longshore_tests::world::openmp_archive;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xtask::{openmp_libraries, shared_library};

/// The result of a trial.
pub(crate) type TrialResult = Result<Completion, Failed>;

/// Returns the result of a skipped trial.
pub(crate) fn not_tried(why: impl Display) -> TrialResult {
    Ok(Completion::ignored_with(why))
}

/// The `libomptarget.so` of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Ours,
    /// LLVM's library of a version.
    Llvm(u32),
}

/// The text and the status of an ended program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) is_success: bool,
    pub(crate) printed: String,
    pub(crate) errors: String,
    status: String,
}

/// The beginning of the line with the number of regions on devices.
const COUNT: &str = "device regions: ";
/// The number of devices of LLVM's host plugin, and so of ours here.
pub(crate) const DEVICES: &str = "4";

impl Library {
    /// Returns the folder of the library.
    fn folder(self) -> Result<PathBuf, Failed> {
        match self {
            Library::Ours => ours(),
            Library::Llvm(version) => Ok(compile::libraries(version)),
        }
    }

    /// Returns a command for a program. `wrapper` starts it, under a time limit.
    pub(crate) fn command(self, compiled: &Compiled, wrapper: &[&str]) -> Result<Command, Failed> {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "120"]).args(wrapper);
        command.arg(&compiled.program).args(&compiled.argument);
        let is_other = |name: &str| {
            ["LONGSHORE_", "OMP_", "LIBOMPTARGET_", "KMP_"].iter().any(|own| name.starts_with(own))
        };
        for (name, _) in std::env::vars_os() {
            if is_other(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        let folders = [openmp_libraries::runtime(), self.folder()?];
        command.env("LD_LIBRARY_PATH", std::env::join_paths(folders)?);
        command.env("OMP_TARGET_OFFLOAD", "MANDATORY");
        if self == Library::Ours {
            command.env("LONGSHORE_PLUGIN_PATH", cargo_folder()).env("LONGSHORE_BACKEND", "host");
            command.env("LONGSHORE_HOST_DEVICES", DEVICES).env("LONGSHORE_JIT_CACHE", "off");
        }
        Ok(command)
    }
}

impl Outcome {
    /// Runs a command to its end; again, at most twice, if libomp fails an assertion of its own.
    /// That happens rarely, while libomp shuts down and other threads start regions.
    pub(crate) fn from_command(command: &mut Command) -> Result<Outcome, Failed> {
        let is_of_libomp = |output: &Output| {
            let errors = String::from_utf8_lossy(&output.stderr);
            errors.contains("Assertion failure at kmp_runtime.cpp")
                && errors.contains("kmp_all_nth")
        };
        let mut output = command.output()?;
        for _ in 0..2 {
            if is_of_libomp(&output) {
                output = command.output()?;
            }
        }
        let Output { status, stdout, stderr } = output;
        Ok(Outcome {
            is_success: status.success(),
            printed: String::from_utf8_lossy(&stdout).into_owned(),
            errors: String::from_utf8_lossy(&stderr).into_owned(),
            status: format!("{command:?}: {status}"),
        })
    }

    /// Checks that the program ended well, without wrong results, and that all its regions ran on a
    /// device.
    pub(crate) fn check(&self) -> Result<(), Failed> {
        let count = self.printed.lines().find_map(|line| line.strip_prefix(COUNT));
        let all = count.and_then(|count| count.split_once(" of "));
        let is_on_device = all.is_some_and(|(ran, regions)| ran == regions);
        if self.is_success && is_on_device && !self.printed.contains("WRONG") {
            return Ok(());
        }
        Err(self.text().into())
    }

    /// Returns all that is known of the run.
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}\n{}", self.status, self.printed, self.errors)
    }
}

/// Returns the folder with our library under all its names, linked again if it is older than
/// cargo's output.
pub(crate) fn ours() -> Result<PathBuf, Failed> {
    let archive = openmp_archive();
    let folder = archive.parent().ok_or("the archive has no folder")?;
    let library = shared_library::OPENMP.link(folder).map_err(|error| format!("{error:#}"))?;
    let names = folder.join("openmp");
    let linked = shared_library::link_openmp_names(&library, &names);
    linked.map_err(|error| format!("{error:#}"))?;
    Ok(names)
}

/// Returns the folder with cargo's output.
fn cargo_folder() -> PathBuf {
    let test = std::env::current_exe().expect("an executable has a path");
    let folder = test.ancestors().nth(2).expect("tests are in a folder of that folder");
    Path::to_owned(folder)
}
