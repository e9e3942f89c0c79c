//! `cargo xtask prose`: runs the checks of comments, documentation, messages and commit subjects.
//!
//! The package `xtask-prose` has the checks.

use crate::{process, root};
use anyhow::{Result, ensure};
use std::ffi::OsString;
use std::process::Command;

const PACKAGE: &str = "xtask-prose";

/// Builds and runs the checks, in the folder of the caller.
///
/// # Errors
/// A failed build, and prose that breaks a rule. The checks have printed the place and the remedy.
pub fn run(arguments: &[OsString]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", PACKAGE, "--manifest-path"]);
    command.arg(root().join("Cargo.toml")).arg("--").args(arguments);
    ensure!(command.status()?.success(), "the prose has to be changed");
    Ok(())
}

/// Runs the checks that the build of the workspace has made. A tree without its repository has no
/// list of files, so the checks are left out there.
///
/// # Errors
/// Prose that breaks a rule.
pub fn run_built() -> Result<()> {
    if !root().join(".git").exists() {
        println!("no repository. Not tested: the rules for prose");
        return Ok(());
    }
    let program = process::target_folder().join("debug").join(PACKAGE);
    process::run(Command::new(program).current_dir(root()))
}
