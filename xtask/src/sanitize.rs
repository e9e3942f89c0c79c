//! `cargo xtask sanitize`: checkers of a nightly toolchain.
//!
//! ThreadSanitizer checks the stress tests of the library, of the C API and of the OpenMP library,
//! and the CPU plugin that they open. The standard library is instrumented too; otherwise ordinary
//! locks look like races. Miri checks the parts in pure Rust; it supports neither `uname` nor the
//! code of other plugins.

use crate::{process, root};
use anyhow::Result;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The plugin uses the sanitizer of the program that opens it.
const THREAD_FLAGS: &str = "-Zsanitizer=thread -Zexport-executable-symbols -Clink-arg=-rdynamic";
const MIRI_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";
/// Packages, and the arguments that select their tests.
const MIRI: [(&str, &[&str]); 4] = [
    ("longshore-plugin-api", &[]),
    // Tests of the queue that an interpreter runs in seconds.
    ("longshore-plugin-host", &["queue::tests::a_"]),
    ("longshore-openmp", &["mapping::index::"]),
    (
        "longshore",
        &[
            "rundown::",
            "memory::",
            "launch::",
            "image::",
            "profile::",
            "program::",
            "selection::",
            "device::",
            "host_function::",
            "--skip",
            "profile::raw::files",
            "--skip",
            "profile::bare",
            "--skip",
            "damaged_sections",
            "--skip",
            "profile::name",
        ],
    ),
];

/// Installs the necessary components of the nightly toolchain, and runs both checkers.
///
/// # Errors
/// No rustup or no nightly toolchain, or a finding of a checker.
pub fn run() -> Result<()> {
    let components = ["component", "add", "--toolchain", "nightly", "miri", "rust-src"];
    process::run(Command::new("rustup").args(components))?;
    for (package, tests) in MIRI {
        let mut miri = nightly("miri");
        miri.env("MIRIFLAGS", MIRI_FLAGS).args(["miri", "test", "--lib", "--package", package]);
        process::run(miri.arg("--").args(tests))?;
    }
    let plugin = "longshore-plugin-host-library";
    let build = ["build", "-Zbuild-std", "--target", TARGET, "-p", plugin];
    process::run(thread_sanitized().args(build))?;
    let test = ["test", "-Zbuild-std", "--target", TARGET, "-p", "longshore-tests"];
    for program in ["devices", "offload"] {
        let stress = ["--test", program, "--", "--nocapture", "[stress]"];
        process::run(thread_sanitized().args(test).args(stress))?;
    }
    let test = ["test", "-Zbuild-std", "--target", TARGET, "-p", "longshore-openmp"];
    process::run(thread_sanitized().args(test).args(["--test", "threads"]))?;
    Ok(())
}

fn thread_sanitized() -> Command {
    let mut command = nightly("thread-sanitizer");
    command.env("RUSTFLAGS", THREAD_FLAGS);
    command
}

/// Returns a command for `cargo` of the nightly toolchain, with a target folder of its own.
fn nightly(folder: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(root());
    command.env("CARGO_TARGET_DIR", root().join("target").join(folder));
    command
}
