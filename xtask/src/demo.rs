//! `cargo xtask demo`: from a kernel's source to a checked result.

use crate::{process, root};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Builds the library, the CPU backend and a program that uses them (`examples/demo`), compiles a
/// kernel and has the program run it and check its results. Nothing else is built.
///
/// The device is the first that `LONGSHORE_BACKEND` and `LONGSHORE_DEVICES` allow and that takes
/// the kernel.
///
/// # Errors
/// A step that fails, or a wrong result.
pub fn run() -> Result<()> {
    let target = process::target_folder();
    let folder = target.join("demo");
    let image = folder.join("libsaxpy.so");
    std::fs::create_dir_all(&folder)?;

    step(1, "build the library, the CPU backend and a program that uses them");
    let packages = ["-p", "longshore-demo", "-p", "longshore-plugin-host-library"];
    process::run(process::cargo(["build", "--release"]).args(packages))?;

    step(2, "compile a kernel to a device image");
    process::run(&mut compile(&image))?;

    step(3, "run it: y = a * x + y");
    process::run(Command::new(target.join("release/longshore-demo")).arg(&image))
}

fn step(number: u32, what: &str) {
    println!("\n[{number}/3] {what}");
}

fn compile(image: &Path) -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-O", "-Cpanic=abort"]);
    rustc.arg(root().join("examples/demo/kernel.rs")).arg("-o").arg(image);
    rustc
}
