//! Errors and times of the functions of `include/longshore_math.h`, by programs in C.

use crate::{process, root};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

const CLANG: &str = "clang-19";
/// Options of kernels for a CPU with AVX2.
const LEVEL: [&str; 2] = ["-O3", "-march=x86-64-v3"];
const LOOPS: &str = "tests/mathematics/loops.c";

/// Measures errors in units in the last place. `arguments` are a function's name or `-`, `f32` or
/// `f64`, and a number of random arguments.
///
/// # Errors
/// A compiler or library that is not installed.
pub fn ulp(arguments: &[String]) -> Result<()> {
    let libraries = ["-lmpfr", "-lgmp", "-lm"];
    let program = build("ulp", Path::new("tests/mathematics/ulp.c"), &libraries)?;
    process::run(Command::new(program).args(arguments))
}

/// Measures times beside SLEEF, if it is installed, and glibc's libmvec. `function` selects one
/// function.
///
/// # Errors
/// A compiler that is not installed, or a CPU without AVX2.
pub fn speed(function: Option<&str>) -> Result<()> {
    let mut libraries = vec!["-lmvec", "-lm"];
    if Path::new("/usr/include/x86_64-linux-gnu/sleef.h").is_file() {
        libraries.insert(0, "-lsleef");
    } else {
        println!("without SLEEF; the package libsleef-dev has it");
    }
    let program = build("speed", Path::new("benches/mathematics/speed.c"), &libraries)?;
    process::run(Command::new(program).args(function))
}

/// Compiles a program with the loops over all functions.
fn build(name: &str, source: &Path, libraries: &[&str]) -> Result<PathBuf> {
    let folder = process::target_folder().join("mathematics");
    std::fs::create_dir_all(&folder)?;
    let loops = folder.join("loops.o");
    let compile = || {
        let mut command = Command::new(CLANG);
        command.current_dir(root()).args(LEVEL).args(["-fno-math-errno", "-Iinclude"]);
        command
    };
    process::run(compile().args(["-c", LOOPS, "-o"]).arg(&loops))?;
    let program = folder.join(name);
    let mut link = compile();
    link.arg(source).arg(&loops).arg("-o").arg(&program).args(libraries);
    process::run(&mut link)?;
    Ok(program)
}
