//! `cargo xtask demo`: from a kernel's source to a checked result, in a minute.

use crate::{process, root};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const COUNT: usize = 1 << 20;
const A: f32 = 2.5;

/// Builds Longshore, compiles a kernel, runs it on a device and checks what it computed.
///
/// The device is the first that `LONGSHORE_BACKEND` and `LONGSHORE_DEVICES` allow.
///
/// # Errors
/// A step that fails, or a wrong result.
pub fn run() -> Result<()> {
    let target = root().join("target");
    let folder = target.join("demo");
    let (image, result) = (folder.join("libsaxpy.so"), folder.join("y.bin"));
    std::fs::create_dir_all(&folder)?;

    step(1, "build the `longshore` command and the CPU backend");
    let packages = ["-p", "longshore-command", "-p", "longshore-plugin-host"];
    process::run(process::cargo(["build", "--release"]).args(packages))?;

    step(2, "compile a kernel to a device image");
    process::run(&mut compile(&image))?;

    step(3, "run it: y = a * x + y");
    let started = Instant::now();
    process::run(&mut launch(&target.join("release/longshore"), &image, &result))?;
    println!("  {:.0} ms in all", started.elapsed().as_secs_f64() * 1e3);

    step(4, "check the result");
    check(&result)
}

fn step(number: u32, what: &str) {
    println!("\n[{number}/4] {what}");
}

fn compile(image: &Path) -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-O", "-Cpanic=abort"]);
    rustc.arg(root().join("xtask/demo/saxpy.rs")).arg("-o").arg(image);
    rustc
}

/// The one place that knows the command's flags.
fn launch(longshore: &Path, image: &Path, result: &Path) -> Command {
    let mut command = Command::new(longshore);
    command.arg("run").arg(image).args(["--kernel", "saxpy"]);
    command.args(["--arg", &format!("u64={COUNT}")]);
    command.args(["--arg", &format!("f32={A}")]);
    command.args(["--arg", &format!("f32[{COUNT}]=iota")]);
    command.args(["--arg", &format!("out:f32[{COUNT}]")]);
    command.arg("--save").arg(format!("3={}", result.display()));
    command
}

fn check(path: &Path) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let (values, rest) = bytes.as_chunks::<4>();
    if values.len() != COUNT || !rest.is_empty() {
        bail!("{}: {} bytes, expected {}", path.display(), bytes.len(), 4 * COUNT);
    }
    for (i, value) in values.iter().enumerate() {
        let (value, expected) = (f32::from_le_bytes(*value), A * i as f32);
        if value != expected {
            bail!("y[{i}] is {value}, expected {expected}");
        }
    }
    println!("  all {COUNT} values are right");
    Ok(())
}
