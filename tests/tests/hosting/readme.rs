//! The program of the README, built from the README's text with its manifest and its kernel.

use longshore_tests::device_code::clangs;
use longshore_tests::doubled::{CUDA, Doubled};
use longshore_tests::effort;
use longshore_tests::world::{command, host_plugin, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const README: &str = include_str!("../../../README.md");
/// The path of the library in the README's package.
const LIBRARY: &str = "../longshore/host";

/// Returns the first block in this language after a heading.
fn block(heading: &str, language: &str) -> &'static str {
    let opening = format!("```{language}\n");
    let (_, section) =
        README.split_once(&format!("\n{heading}\n")).expect("the README has the heading");
    let (_, block) = section.split_once(&opening).expect("a block follows");
    block.split_once("```").expect("the block ends").0
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Builds the README's package with the crates of the workspace's lock file. A full test uses
/// cargo, which builds many of the crates with other features than the workspace. A short test uses
/// the compiler.
fn build(folder: &Path) -> PathBuf {
    write_package(folder);
    let manifest = folder.join("Cargo.toml");
    let mut resolve = Command::new(env!("CARGO"));
    // Crates for other systems may be missing.
    resolve.args([
        "metadata",
        "--quiet",
        "--offline",
        "--format-version",
        "1",
        "--filter-platform",
    ]);
    resolve.arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
    output(resolve.arg("--manifest-path").arg(&manifest).current_dir(root()));
    let debug = host_plugin().parent().unwrap().to_owned();
    let program = folder.join("program");
    let library = debug.join("liblongshore.rlib");
    if effort::is_all() || !library.is_file() {
        let target = debug.parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--manifest-path"]).arg(&manifest);
        output(cargo.arg("--target-dir").arg(target).current_dir(root()));
        // The next build of this kind may replace the program.
        output(Command::new("install").arg(target.join("debug/saxpy")).arg(&program));
    } else {
        let mut rustc = Command::new("rustc");
        rustc.arg("--edition=2024").arg(folder.join("src/main.rs")).arg("-o").arg(&program);
        rustc.arg("--extern").arg(format!("longshore={}", library.display()));
        output(rustc.arg(format!("-Ldependency={}", debug.join("deps").display())));
    }
    program
}

/// Writes the README's package.
fn write_package(folder: &Path) {
    let manifest = block("## A program", "toml");
    assert!(manifest.contains(LIBRARY), "{manifest}");
    let manifest = manifest.replace(LIBRARY, root().join("host").to_str().unwrap());
    // With the profile of the workspace, its built crates need no second build.
    let profile = "[workspace]\n[profile.dev]\ndebug = \"line-tables-only\"\n";
    std::fs::create_dir(folder.join("src")).unwrap();
    std::fs::write(folder.join("Cargo.toml"), format!("{manifest}\n{profile}")).unwrap();
    std::fs::write(folder.join("src/main.rs"), block("## A program", "rust,no_run")).unwrap();
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
}

/// Returns a command for a program that uses these backends, in this order, and the double of
/// CUDA's driver.
fn with_backends(program: &Path, backends: &str, cuda: &Doubled) -> Command {
    let mut command = Command::new(program);
    command.env("LONGSHORE_BACKEND", backends).env_remove("LONGSHORE_DEVICES");
    command.env("LONGSHORE_PLUGIN_PATH", host_plugin().parent().unwrap());
    command.env("LONGSHORE_CUDA_DRIVER", cuda.double().expect("the double is built"));
    command.env(cuda.settings_variable(), Doubled::with_twins("devices=1"));
    command
}

#[test]
fn the_readmes_program_builds_and_runs_also_where_a_gpu_comes_first() {
    let Some(clang) = clangs().pop() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path());
    let (command, source) = (command(), folder.path().join("saxpy.c"));
    std::fs::write(&source, block("### A kernel in four lines", "c")).unwrap();
    let mut compile = Command::new(&command);
    output(compile.args(["cc", "saxpy.c", "--clang", clang]).current_dir(&folder));
    for (backends, first) in [("host", "host:0"), ("cuda,host", "cuda:0")] {
        let listed = output(with_backends(&command, backends, &CUDA).arg("devices"));
        let preferred = listed.lines().nth(1).unwrap();
        assert!(preferred.starts_with(first), "{listed}");
        let said = output(with_backends(&program, backends, &CUDA).current_dir(&folder));
        assert!(said.starts_with("running on "), "{said}");
    }
}
