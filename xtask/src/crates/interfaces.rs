//! Interfaces of the published crates: their documentation, and their changes since the last tag.

use super::{FOR_USERS, process};
use anyhow::Result;

/// Builds the documentation as docs.rs does: with all features and the condition `docsrs`. Warnings
/// are errors.
///
/// # Errors
/// A warning, or a build that fails.
pub(super) fn document() -> Result<()> {
    let packages = FOR_USERS.iter().flat_map(|name| ["-p", name]);
    let mut doc = process::cargo(["doc", "--no-deps", "--all-features"]);
    // docs.rs has a nightly compiler; the variable gives the stable one the same features.
    doc.env("RUSTC_BOOTSTRAP", "1").env("RUSTDOCFLAGS", "--cfg docsrs -D warnings");
    let folder = process::target_folder().join("docs-rs");
    process::run(doc.args(packages).arg("--target-dir").arg(folder))
}

/// Compares the interfaces with the last tag before this commit, `vN.N.N`. Without such a tag there
/// is nothing to compare.
///
/// # Errors
/// A change that the version does not allow; a tool that cannot be installed.
pub(super) fn compare() -> Result<()> {
    // The commit before, as a release has its own tag.
    let before = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"];
    let tag = process::said("git", &before);
    // The fallback of a failed command.
    if !tag.starts_with('v') {
        println!("there is no tag yet: the interfaces were compared with no release");
        return Ok(());
    }
    let folder = process::target_folder().join("tools");
    let tool = folder.join("bin/cargo-semver-checks");
    if !process::starts("cargo-semver-checks", &["--version"]) && !tool.is_file() {
        let install = ["install", "--locked", "cargo-semver-checks", "--root"];
        process::run(process::cargo(install).arg(&folder))?;
    }
    let packages = FOR_USERS.iter().flat_map(|name| ["-p", name]);
    let mut check = process::cargo(["semver-checks", "check-release", "--baseline-rev", &tag]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).chain([folder.join("bin")]);
    process::run(check.args(packages).env("PATH", std::env::join_paths(path)?))
}
