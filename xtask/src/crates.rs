//! `cargo xtask crates`: packs the crates for crates.io, builds each from its package, and tries
//! them as new users do.
//!
//! Nothing is published. Cargo resolves the packed crates among each other, in the order of their
//! dependencies.

mod interfaces;
mod users;

use crate::{process, root};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates whose interfaces are for programs, plugins and build scripts.
pub const FOR_USERS: [&str; 4] =
    ["longshore", "longshore-plugin-api", "longshore-jitlink", "longshore-build"];

/// Host name of the repository's address until there is a public repository.
const NO_HOST: &str = ".example/";

/// A crate of the workspace that is published.
#[derive(Debug)]
pub struct Package {
    /// The crate's name.
    pub name: String,
    /// The crate's version.
    pub version: String,
    /// The folder of the crate's manifest.
    pub folder: PathBuf,
    /// The manifest, as `cargo metadata` reports it.
    pub manifest: Value,
}

/// Returns the crates that are published, by name.
///
/// # Errors
/// A failure of `cargo metadata`.
pub fn published() -> Result<Vec<Package>> {
    let mut metadata = process::cargo(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&process::printed(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    // `publish = false` is an empty list of registries.
    let published = packages.iter().filter(|package| package["publish"].is_null());
    let mut published = published.map(Package::new).collect::<Result<Vec<_>>>()?;
    published.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(published)
}

impl Package {
    fn new(manifest: &Value) -> Result<Package> {
        let text = |name: &str| manifest[name].as_str().with_context(|| format!("no {name}"));
        let file = Path::new(text("manifest_path")?);
        Ok(Package {
            name: text("name")?.to_owned(),
            version: text("version")?.to_owned(),
            folder: file.parent().context("a manifest without a folder")?.to_owned(),
            manifest: manifest.clone(),
        })
    }

    /// Returns the file of the packed crate.
    fn packed(&self) -> PathBuf {
        let file = format!("package/{}-{}.crate", self.name, self.version);
        process::target_folder().join(file)
    }
}

/// Packs and builds all crates, builds their documentation as docs.rs does, compares their
/// interfaces with the last tag, checks the oldest Rust version, and builds programs of users. With
/// `is_quick`, builds the programs alone.
///
/// # Errors
/// The first step that fails.
pub fn run(is_quick: bool) -> Result<()> {
    let packages = published()?;
    let names: Vec<_> = packages.iter().flat_map(|package| ["-p", &package.name]).collect();
    if !is_quick {
        // The dry run builds each crate from its package.
        let dry_run = ["publish", "--dry-run", "--allow-dirty", "--locked"];
        process::run(process::cargo(dry_run).args(&names))?;
        interfaces::document()?;
        interfaces::compare()?;
    }
    // The dry run keeps no packages.
    let pack = ["package", "--no-verify", "--allow-dirty", "--locked"];
    process::run(process::cargo(pack).args(&names))?;
    let registry = users::unpack(&packages)?;
    users::run_program(&registry)?;
    users::run_kernels(&registry)?;
    users::build_plugin(&registry)?;
    if packages.iter().any(|package| is_placeholder(&package.manifest)) {
        println!("before a release, set `repository` in Cargo.toml to its address");
    }
    Ok(())
}

fn is_placeholder(manifest: &Value) -> bool {
    manifest["repository"].as_str().is_none_or(|address| address.contains(NO_HOST))
}

/// Returns a command for cargo below `target/crates`, whose builds share one folder.
fn cargo_in(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = process::cargo(arguments);
    command
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", process::target_folder().join("crates/target"));
    command
}

/// Returns the output of a command that should fail.
fn failing(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if output.status.success() {
        bail!("{command:?} succeeded, expected an error of the compiler");
    }
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the folder with the users' programs.
fn fixtures() -> PathBuf {
    root().join("tests/fixtures/crates")
}
