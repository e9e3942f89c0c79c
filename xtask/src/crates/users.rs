//! Programs of new users, which see nothing but the packed crates.

use super::{Package, cargo_in, failing, fixtures};
use crate::{process, root};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Rust version of the plugin interface.
const OLDEST: &str = "1.85";

/// The launch in the program with kernels, wrong launches in its place, and a part of the
/// compiler's error for each.
const LAUNCH: &str = "1024, 2.5, &x, &y";
const WRONG: [(&str, &str); 4] = [
    ("1024, 2.5, &x", "E0061"),
    ("1024u32, 2.5, &x, &y", "mismatched types"),
    ("1024, 2.5f64, &x, &y", "mismatched types"),
    (
        "1024, 2.5, &x, &device.buffer_of(&queue, &[2.0f64; 1024])?",
        "`&Buffer<f64>` is no argument for a kernel's pointer to `f32`",
    ),
];

/// The unpacked crates, and the lines of a manifest by which cargo takes them for crates.io's.
pub(super) struct Registry {
    patch: String,
    folder: PathBuf,
}

/// Unpacks the packed crates.
///
/// # Errors
/// A missing package, or one that `tar` cannot unpack.
pub(super) fn unpack(packages: &[Package]) -> Result<Registry> {
    let folder = process::target_folder().join("crates");
    let unpacked = folder.join("unpacked");
    if unpacked.exists() {
        std::fs::remove_dir_all(&unpacked)?;
    }
    std::fs::create_dir_all(&unpacked)?;
    let mut patch = "\n[patch.crates-io]\n".to_owned();
    for package in packages {
        let mut tar = Command::new("tar");
        process::run(tar.arg("-xzf").arg(package.packed()).arg("-C").arg(&unpacked))?;
        let place = unpacked.join(format!("{}-{}", package.name, package.version));
        writeln!(patch, "{} = {{ path = {place:?} }}", package.name)?;
    }
    Ok(Registry { patch, folder })
}

impl Registry {
    /// Copies a user's files, and makes cargo take the unpacked crates.
    fn user(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        copy(&fixtures().join(name), &folder)?;
        let manifest = folder.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)? + &self.patch;
        std::fs::write(manifest, text)?;
        // Other crates have the versions of the workspace.
        std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(folder)
    }
}

/// Runs a program on the CPU backend that it contains, with no plugin in reach.
///
/// # Errors
/// A build that fails, or a program with other output.
pub(super) fn run_program(registry: &Registry) -> Result<()> {
    let folder = registry.user("program")?;
    let printed = run(&folder)?;
    ensure!(printed.starts_with("host:0 "), "the device is not the CPU: {printed}");
    ensure!(printed.ends_with(": [1.0, 2.0, 3.0]\n"), "wrong numbers: {printed}");
    Ok(())
}

/// Runs a program with a kernel that its build script compiles, and sees that wrong arguments do
/// not compile.
///
/// # Errors
/// As for [`run_program`]; a wrong launch that compiles.
pub(super) fn run_kernels(registry: &Registry) -> Result<()> {
    let folder = registry.user("kernels")?;
    let printed = run(&folder)?;
    ensure!(printed == "4.5\n", "the kernel computed {printed}");
    let main = folder.join("src/main.rs");
    let text = std::fs::read_to_string(&main)?;
    ensure!(text.contains(LAUNCH), "the program has no launch '{LAUNCH}'");
    for (wrong, expected) in WRONG {
        std::fs::write(&main, text.replace(LAUNCH, wrong))?;
        let error = failing(&mut cargo_in(&folder, &["check", "--quiet"]))?;
        ensure!(error.contains(expected), "'{wrong}' gives another error:\n{error}");
        println!("does not compile: {wrong}");
    }
    Ok(())
}

/// Builds a plugin in Rust, also by the oldest Rust version of the interface, if rustup has it.
///
/// # Errors
/// A build that fails.
pub(super) fn build_plugin(registry: &Registry) -> Result<()> {
    let folder = registry.user("plugin")?;
    let source = folder.join("src");
    std::fs::create_dir_all(&source)?;
    std::fs::copy(root().join("examples/plugin.rs"), source.join("lib.rs"))?;
    process::run(&mut cargo_in(&folder, &["build"]))?;
    let toolchain = format!("+{OLDEST}");
    if !process::starts("cargo", &[&toolchain, "--version"]) {
        println!(
            "Rust {OLDEST} is not installed. Not tested: the plugin interface with its oldest \
             version (rustup toolchain install {OLDEST})"
        );
        return Ok(());
    }
    let mut check = Command::new("cargo");
    // Variables of the running cargo name its own compiler.
    check.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").current_dir(&folder);
    check.args([&toolchain, "check", "--target-dir"]).arg(registry.folder.join("oldest"));
    process::run(&mut check)
}

/// Builds and runs a program, and returns its output.
fn run(folder: &Path) -> Result<String> {
    process::run(&mut cargo_in(folder, &["build"]))?;
    let mut program = cargo_in(folder, &["run", "--quiet"]);
    for (name, _) in std::env::vars_os() {
        // The user has set up nothing.
        if name.to_string_lossy().starts_with("LONGSHORE_") {
            program.env_remove(name);
        }
    }
    let printed = process::printed(&mut program)?;
    print!("{printed}");
    Ok(printed)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => drop(std::fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}
