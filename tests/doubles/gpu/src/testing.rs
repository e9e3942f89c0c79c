//! Support for tests of doubles: programs that load a double's file, as they would load a driver.

mod calls;
mod sources;
mod twins;

pub use sources::{CONSTRUCTORS, COUNTED};
pub use twins::{Twins, run};

use crate::Settings;
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Variable with the number of a test's part, set in the process that runs the part.
const INSIDE: &str = "LONGSHORE_DOUBLE_TEST";

thread_local! {
    static PARTS: Cell<usize> = const { Cell::new(0) };
}

/// A double under test.
pub struct TestedDouble {
    /// The environment variable with its settings.
    pub settings: &'static str,
    /// Name of the double's package.
    pub package: &'static str,
    /// Name of the double's file.
    pub file: &'static str,
}

/// The output of the process that ran a part of a test; empty in a process that runs another part.
pub struct ProcessOutput {
    status: Option<ExitStatus>,
    stdout: String,
    stderr: Option<String>,
}

impl TestedDouble {
    /// Runs a part of a test with a double that has these settings. The part runs in a process of
    /// its own, as each process has one state of the double. Inside that process, this function
    /// never returns.
    ///
    /// # Panics
    /// If the part panicked.
    pub fn run<D>(
        &self,
        settings: &str,
        open: impl FnOnce(&Path) -> D,
        part: impl FnOnce(&D),
    ) -> ProcessOutput {
        let said = self.run_to_its_end(settings, open, part);
        let ended = said.status.is_none_or(|status| status.success());
        assert!(ended, "{:?}\n{}\n{:?}", said.status, said.stdout, said.stderr);
        said
    }

    /// Runs a part of a test that may end the process in any way.
    pub fn run_to_its_end<D>(
        &self,
        settings: &str,
        open: impl FnOnce(&Path) -> D,
        part: impl FnOnce(&D),
    ) -> ProcessOutput {
        let number = PARTS.replace(PARTS.get() + 1).to_string();
        if let Some(inside) = std::env::var_os(INSIDE) {
            if inside == *number {
                part(&open(&folder().join(self.file)));
                std::process::exit(0);
            }
            return ProcessOutput { status: None, stdout: String::new(), stderr: None };
        }
        self.build();
        let thread = std::thread::current();
        let name = thread.name().expect("tests run on threads with their names");
        let output = Command::new(std::env::current_exe().expect("an executable has a path"))
            .args([name, "--exact", "--nocapture", "--include-ignored"])
            .env(self.settings, settings)
            .env(INSIDE, number)
            .output()
            .expect("this executable starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), Some(text(&output.stderr)));
        ProcessOutput { status: Some(output.status), stdout, stderr }
    }

    /// Returns a setting of this process's double; `None` in a process without one.
    pub fn setting(&self, name: &str) -> Option<String> {
        std::env::var_os(INSIDE)?;
        let settings = Settings::from_environment(self.settings);
        settings.get(name).map(str::to_owned)
    }

    /// Builds the double's files: cargo does not build a package's files for the tests of another.
    /// `cargo xtask test` builds the workspace before, and says so in a variable.
    fn build(&self) {
        if std::env::var_os("LONGSHORE_TEST_BUILT").is_some() {
            return;
        }
        let folder = folder();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "longshore-double-gpu", "-p", self.package]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.arg("--target-dir").arg(folder.parent().expect("a profile's folder is in another"));
        assert!(cargo.current_dir(root()).status().expect("cargo starts").success());
    }
}

impl ProcessOutput {
    /// Checks that a signal ended the process.
    ///
    /// # Panics
    /// If the process ended in another way.
    pub fn ended_by(&self, signal: i32) {
        let by = self.status.map(|status| status.signal());
        assert!(by.is_none_or(|by| by == Some(signal)), "{:?}", self.status);
    }

    /// Checks that the double reported nothing.
    ///
    /// # Panics
    /// If it reported something.
    pub fn nothing_wrong(&self) {
        let stderr = self.stderr.as_deref().unwrap_or_default();
        assert!(!stderr.contains("longshore double"), "{stderr}");
    }

    /// Checks that the double reported a violation whose line contains `what`.
    ///
    /// # Panics
    /// If it did not.
    pub fn complaint(&self, what: &str) {
        let Some(stderr) = &self.stderr else { return };
        let mut lines = stderr.lines().filter(|line| line.contains("longshore double"));
        assert!(lines.any(|line| line.contains(what)), "expected '{what}':\n{stderr}");
    }

    /// Checks that a kernel printed this text.
    ///
    /// # Panics
    /// If it did not.
    pub fn printed(&self, what: &str) {
        let is_there = self.stderr.is_none() || self.stdout.contains(what);
        assert!(is_there, "expected '{what}':\n{}", self.stdout);
    }
}

/// Returns the repository's folder.
pub fn root() -> &'static Path {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
    above.expect("the crate is three folders down")
}

/// Returns cargo's build folder.
fn folder() -> PathBuf {
    let executable = std::env::current_exe().expect("an executable has a path");
    let folder = executable.ancestors().find(|path| path.join(".fingerprint").is_dir());
    folder.expect("tests run from a folder that cargo made").to_owned()
}
