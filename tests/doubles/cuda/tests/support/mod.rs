//! A program that uses the double: by its file, as it would use a driver.

#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod cuda;
pub(crate) mod images;

use cuda::Cuda;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with a double's settings.
const SETTINGS: &str = "LONGSHORE_CUDA_DOUBLE";
/// Set in processes that run one part of a test, to its number.
const INSIDE: &str = "LONGSHORE_DOUBLE_TEST";

thread_local! {
    static PARTS: Cell<usize> = const { Cell::new(0) };
}

/// What a process said that ran a part of a test; nothing, in a process that runs another part.
pub(crate) struct Said {
    stdout: String,
    stderr: Option<String>,
}

/// Runs a part of a test with a double that has these settings, in a process of its own, as a double is the process's.
/// Within that, never returns.
pub(crate) fn with_double(settings: &str, part: impl FnOnce(&Cuda)) -> Said {
    let number = PARTS.replace(PARTS.get() + 1).to_string();
    if let Some(inside) = std::env::var_os(INSIDE) {
        if inside == *number {
            part(&Cuda::open(&library()));
            std::process::exit(0);
        }
        return Said { stdout: String::new(), stderr: None };
    }
    build();
    let thread = std::thread::current();
    let name = thread.name().expect("tests run on threads with their names");
    let output = Command::new(std::env::current_exe().expect("an executable has a path"))
        .args([name, "--exact", "--nocapture", "--include-ignored"])
        .env(SETTINGS, settings)
        .env(INSIDE, number)
        .output()
        .expect("this executable starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    Said { stdout, stderr: Some(stderr) }
}

impl Said {
    /// That the double had nothing to complain of.
    pub(crate) fn nothing_wrong(&self) {
        let stderr = self.stderr.as_deref().unwrap_or_default();
        assert!(!stderr.contains("longshore double"), "{stderr}");
    }

    /// That the double complained of this.
    pub(crate) fn complaint(&self, what: &str) {
        let Some(stderr) = &self.stderr else { return };
        let mut lines = stderr.lines().filter(|line| line.contains("longshore double"));
        assert!(lines.any(|line| line.contains(what)), "expected '{what}':\n{stderr}");
    }

    /// That a kernel printed this.
    pub(crate) fn printed(&self, what: &str) {
        let is_there = self.stderr.is_none() || self.stdout.contains(what);
        assert!(is_there, "expected '{what}':\n{}", self.stdout);
    }
}

/// A setting of this process's double; `None` in a process without one.
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var_os(INSIDE)?;
    let settings = longshore_double_gpu::Settings::of_environment(SETTINGS);
    settings.get(name).map(str::to_owned)
}

/// The repository.
pub(crate) fn root() -> &'static Path {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
    above.expect("the crate is three folders down")
}

fn library() -> PathBuf {
    folder().join("liblongshore_double_cuda.so")
}

/// The folder that cargo builds into.
fn folder() -> PathBuf {
    let executable = std::env::current_exe().expect("an executable has a path");
    let folder = executable.ancestors().find(|path| path.join(".fingerprint").is_dir());
    folder.expect("tests run from a folder that cargo made").to_owned()
}

/// Brings the double's files up to date: cargo does not build a package's files for the tests of another.
fn build() {
    let folder = folder();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "longshore-double-gpu", "-p", "longshore-double-cuda"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    cargo.arg("--target-dir").arg(folder.parent().expect("a profile's folder is in another"));
    assert!(cargo.current_dir(root()).status().expect("cargo starts").success());
}
