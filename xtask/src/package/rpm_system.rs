//! The RPM packages of this machine's architecture, installed by `rpm` below an empty folder.

use super::list::PACKAGES;
use super::target::Architecture;
use super::tree;
use crate::files::files_below;
use crate::process::{self, printed};
use crate::root;
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders below `/usr` that belong to packages of every system.
const SHARED: [&str; 14] = [
    "bin",
    "include",
    "lib",
    "lib64/cmake",
    "lib64/pkgconfig",
    "libexec",
    "share/bash-completion/completions",
    "share/cmake",
    "share/doc",
    "share/fish/vendor_completions.d",
    "share/licenses",
    "share/man/man1",
    "share/pkgconfig",
    "share/zsh/site-functions",
];

/// Checks, installs, verifies, uses and removes the RPM packages in `packages`.
///
/// # Errors
/// No packages; a step that fails.
pub fn test(packages: &Path) -> Result<()> {
    println!("== RPM");
    let end = format!(".{}.rpm", Architecture::native().rpm());
    let is_rpm = |file: &PathBuf| file.to_string_lossy().ends_with(&end);
    let files: Vec<_> = files_below(packages)?.into_iter().filter(is_rpm).collect();
    if files.is_empty() {
        bail!("{} has no *{end}: `cargo xtask package` makes them", packages.display());
    }
    let system = root().join("target/chroots/rpm");
    tree::remove(&system)?;
    std::fs::create_dir_all(&system)?;
    process::run_quietly(Command::new("rpm").arg("--checksig").args(&files))?;
    let rpm = |arguments: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(&system).args(arguments);
        rpm
    };
    process::run_quietly(&mut rpm(&["--initdb"]))?;
    // The folder has neither the C library nor a shell.
    process::run_quietly(rpm(&["--install", "--nodeps", "--noscripts"]).args(&files))?;
    let changed = printed(&mut rpm(&["--verify", "--all", "--nodeps", "--noscripts"]))?;
    ensure!(changed.is_empty(), "installed files differ from the packages:\n{changed}");
    let mut command = Command::new(system.join("usr/bin/longshore"));
    let listed = printed(command.env("LONGSHORE_BACKEND", "host").arg("plugins"))?;
    let plugin = system.join("usr/lib/longshore/liblongshore_plugin_host.so");
    let finds = listed.contains(&*plugin.to_string_lossy());
    ensure!(finds, "the command does not find {}:\n{listed}", plugin.display());
    let names = PACKAGES.iter().map(|package| package.name);
    process::run_quietly(rpm(&["--erase", "--nodeps", "--noscripts"]).args(names))?;
    let left = files_below(&system.join("usr"))?;
    ensure!(left.is_empty(), "the removal left {left:?}");
    let mut find = Command::new("find");
    let folders = printed(find.arg(system.join("usr")).args(["-type", "d", "-printf", "%P\\n"]))?;
    let is_shared =
        |folder: &&str| SHARED.iter().any(|shared| Path::new(shared).starts_with(folder));
    let own: Vec<_> = folders.lines().filter(|folder| !is_shared(folder)).collect();
    ensure!(own.is_empty(), "the removal left the folders {own:?}");
    println!("-- nothing is left");
    tree::remove(&system)
}
