//! Compilation of the test programs.

use super::TrialResult;
use libtest_mimic::{Completion, Failed};
use longshore_tests::world::root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The form of the library in a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    Shared,
    Statically,
    /// The shared library, in a program that clang instruments with this sanitizer.
    Sanitized(&'static str),
}

/// Libraries of the system that the static library needs.
pub(crate) const SYSTEM: [&str; 4] = ["-lgcc_s", "-lpthread", "-lm", "-ldl"];
const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/offload");
/// Clang for C and for C++.
const CLANGS: [&str; 2] = ["clang-19", "clang++-19"];
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Returns a compiled program. A file newer than all its sources is used again.
pub(crate) fn program(file: &str, linked: Linked) -> Result<PathBuf, Failed> {
    let (source, library) = (source(file), library(linked)?);
    let kind = match linked {
        Linked::Shared => "shared",
        Linked::Statically => "static",
        Linked::Sanitized(sanitizer) => sanitizer,
    };
    let program = Path::new(FOLDER).join(format!("{file}.{kind}"));
    let header = root().join("capi/include/OffloadAPI.h");
    let parts = [&source, &library, &header, &source.with_file_name("check.h")].map(changed);
    if changed(&program) > parts.into_iter().max().flatten() {
        return Ok(program);
    }
    std::fs::create_dir_all(FOLDER)?;
    // Other processes may compile the program at the same time.
    let unfinished = tempfile::tempdir_in(FOLDER)?;
    let made = unfinished.path().join("program");
    let mut compiler = match linked {
        Linked::Sanitized(_) => compiler(CLANGS, file),
        _ => compiler(["gcc", "g++"], file),
    };
    compiler.args(["-g", "-O1", "-pthread", "-o"]).arg(&made).arg(source).arg(&library);
    match linked {
        Linked::Shared => compiler.arg(format!("-Wl,-rpath,{}", folder().display())),
        Linked::Sanitized(sanitizer) => compiler
            .arg(format!("-fsanitize={sanitizer}"))
            .arg("-fno-sanitize-recover=all")
            .arg(format!("-Wl,-rpath,{}", folder().display())),
        Linked::Statically => compiler.args(SYSTEM),
    };
    run(&mut compiler)?;
    std::fs::rename(made, &program)?;
    Ok(program)
}

/// Checks that clang compiles a program too.
pub(crate) fn check(file: &str) -> TrialResult {
    if let Some(missing) = missing_clang() {
        return super::not_tried(format!("not installed: {missing}"));
    }
    let mut compiler = compiler(CLANGS, file);
    run(compiler.arg("-fsyntax-only").arg(source(file)))?;
    Ok(Completion::Completed)
}

/// Returns the name of clang if it is not installed.
pub(crate) fn missing_clang() -> Option<&'static str> {
    CLANGS.into_iter().find(|clang| Command::new(clang).arg("--version").output().is_err())
}

/// Returns the library, rebuilt if it is older than cargo's output.
pub(crate) fn library(linked: Linked) -> Result<PathBuf, Failed> {
    let shared =
        xtask::shared_library::OFFLOAD.link(&folder()).map_err(|error| format!("{error:#}"))?;
    Ok(match linked {
        Linked::Shared | Linked::Sanitized(_) => shared,
        Linked::Statically => folder().join(xtask::shared_library::OFFLOAD.archive),
    })
}

/// Returns the folder with cargo's output.
pub(crate) fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("an executable has a path");
    test.ancestors().nth(2).expect("tests are in a folder of that folder").to_owned()
}

fn source(file: &str) -> PathBuf {
    root().join("tests/fixtures/offload").join(file)
}

/// Returns the compiler for the language of a file: the C or the C++ compiler, with the oldest
/// standard that the header supports.
fn compiler([c, cpp]: [&str; 2], file: &str) -> Command {
    let is_c = file.ends_with(".c");
    let mut compiler = Command::new(if is_c { c } else { cpp });
    compiler.arg(if is_c { "-std=c99" } else { "-std=c++17" }).args(WARNINGS);
    compiler.arg("-I").arg(root().join("capi/include"));
    compiler
}

/// Runs a tool; the error is its output.
pub(crate) fn run(tool: &mut Command) -> Result<(), Failed> {
    let output = tool.output().map_err(|error| format!("{:?}: {error}", tool.get_program()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{tool:?}: {}\n{}", output.status, said(&output.stderr)).into()),
    }
}

/// Returns the output of a program as text.
pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn changed(file: impl AsRef<Path>) -> Option<SystemTime> {
    file.as_ref().metadata().and_then(|metadata| metadata.modified()).ok()
}
