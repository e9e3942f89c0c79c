//! The functions of `include/longshore_math.h`: their errors, their special values, the same bits
//! on all CPUs, operations with the same meaning on GPUs, and loops that the compiler vectorises.

use longshore_tests::device_code::clangs;
use longshore_tests::effort;
use longshore_tests::world::root;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Returns the folder of the programs and the loops over all functions.
fn sources() -> PathBuf {
    root().join("tests/mathematics")
}

/// Runs a program and returns its output, or `None` if it does not exist.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &errors)
}

/// Compiles a file of [`sources`] to an object. Returns the object and the compiler's remarks.
fn object(clang: &str, flags: &str, source: &str, folder: &TempDir) -> (PathBuf, String) {
    let name = format!("{source}{clang}{flags}.o").replace(' ', "");
    let to = folder.path().join(name);
    let mut command = Command::new(clang);
    command.args(flags.split_whitespace()).args(["-w", "-fno-math-errno", "-c", "-o"]).arg(&to);
    command.arg("-I").arg(root().join("include")).arg(sources().join(source));
    let remarks = output(&mut command).expect("the compiler exists");
    (to, remarks)
}

/// Returns the program of `main` and the loops, linked by `linker`.
fn program(linker: &str, main: &str, clang: &str, flags: &str, libraries: &[&str]) -> Program {
    let folder = tempfile::tempdir().unwrap();
    let objects = [main, "loops.c"].map(|source| object(clang, flags, source, &folder).0);
    let file = folder.path().join("program");
    let mut link = Command::new(linker);
    link.args(objects).arg("-o").arg(&file).args(libraries);
    output(&mut link).expect("the linker exists");
    Program { file, _folder: folder }
}

struct Program {
    file: PathBuf,
    _folder: TempDir,
}

fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Runs a program and returns the hashes of all results, by function.
fn hashes(run: &mut Command) -> BTreeMap<String, String> {
    let text = output(run).expect("the program exists");
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, hashes)| (name.to_owned(), hashes.to_owned())).collect()
}

fn assert_same(expected: &BTreeMap<String, String>, got: &BTreeMap<String, String>, about: &str) {
    assert!(got.len() > 40, "{about}: {} lines", got.len());
    for (name, hashes) in expected {
        assert_eq!(Some(hashes), got.get(name), "{name}: {about}");
    }
}

#[test]
fn all_compilers_and_levels_give_the_same_bits() {
    if !cfg!(target_arch = "x86_64") {
        println!("this is no x86-64; nothing was tried");
        return;
    }
    let versions = clangs();
    let Some(newest) = versions.last() else { return };
    let results = |clang: &str, flags: &str| {
        hashes(&mut Command::new(&program(clang, "bits.c", clang, flags, &["-lm"]).file))
    };
    let expected = results(newest, "-O3");
    let is_there = |flags: &str| match flags.split_once("x86-64-v") {
        Some((_, "3")) => is_x86_feature_detected!("fma"),
        Some((_, "4")) => is_x86_feature_detected!("avx512vl"),
        _ => true,
    };
    for clang in &versions {
        let levels = ["-O3 -march=x86-64-v3", "-O0", "-O3 -march=x86-64-v4"];
        let wanted = if effort::is_all() || clang == newest { 3 } else { 1 };
        for flags in levels.into_iter().take(wanted).filter(|flags| is_there(flags)) {
            assert_same(&expected, &results(clang, flags), &format!("{clang} {flags}"));
        }
    }
}

#[test]
fn aarch64_gives_the_same_bits_as_x86_64() {
    const LINKER: &str = "aarch64-linux-gnu-gcc";
    const EMULATOR: &str = "qemu-aarch64-static";
    let Some(clang) = clangs().pop() else { return };
    if !cfg!(target_arch = "x86_64") || !exists(LINKER) || !exists(EMULATOR) {
        println!("this is no x86-64, or the tools for AArch64 are missing; nothing was tried");
        return;
    }
    let here = program(clang, "bits.c", clang, "-O2", &["-lm"]);
    let flags = "-O3 --target=aarch64-linux-gnu";
    let there = program(LINKER, "bits.c", clang, flags, &["-static", "-lm"]);
    let expected = hashes(&mut Command::new(&here.file));
    let got = hashes(Command::new(EMULATOR).arg(&there.file));
    assert_same(&expected, &got, "AArch64");
}

/// Returns the functions of one argument, in the order of their list.
fn functions_of_one_argument() -> Vec<String> {
    let text = std::fs::read_to_string(sources().join("functions.h")).unwrap();
    let list = text.split("#define TWO_ARGUMENTS").next().unwrap();
    let entries = list.lines().filter_map(|line| line.trim().strip_prefix("X("));
    entries.filter_map(|entry| Some(entry.split_once(',')?.0.to_owned())).collect()
}

/// Some functions fuse multiplications and additions where the CPU can. The double that they round
/// differs, the float does not.
#[test]
fn fused_operations_give_the_same_bits_for_every_float() {
    let Some(clang) = clangs().pop() else { return };
    if !cfg!(target_arch = "x86_64") || !is_x86_feature_detected!("fma") {
        println!("this is no x86-64 with fused operations; nothing was tried");
        return;
    }
    let results = |flags: &str| {
        let program = program(clang, "every.c", clang, flags, &[]);
        let mut run = Command::new(&program.file);
        if effort::is_all() {
            run.args(["0", "255"]).args(functions_of_one_argument());
        } else {
            // For smaller and larger arguments, the functions round to 1, vanish or overflow.
            run.args(["100", "134", "exp", "exp2", "exp10", "cosh", "erfc"]);
        }
        hashes(&mut run)
    };
    let (separate, fused) = (results("-O3"), results("-O3 -march=x86-64-v3"));
    assert_same(&separate, &fused, "fused");
}

/// Returns the documented error of each function and type, from `docs/mathematics.md`.
fn documented() -> BTreeMap<(String, &'static str), f64> {
    let text = std::fs::read_to_string(root().join("docs/mathematics.md")).unwrap();
    let mut errors = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, f32, _, f64, _, _] = cells[..] else { continue };
        for (kind, error) in [("f32", f32), ("f64", f64)] {
            let error = error.parse().unwrap_or_else(|_| panic!("{line}"));
            errors.insert((name.trim_matches('`').to_owned(), kind), error);
        }
    }
    errors
}

#[test]
fn errors_are_not_greater_than_documented_and_special_values_are_right() {
    let Some(clang) = clangs().pop() else { return };
    let has_mpfr = Path::new("/usr/include/mpfr.h").exists();
    if !cfg!(target_arch = "x86_64") || !has_mpfr {
        println!("this is no x86-64, or MPFR is not installed; nothing was tried");
        return;
    }
    let flags = if is_x86_feature_detected!("fma") { "-O3 -march=x86-64-v3" } else { "-O3" };
    let program = program(clang, "ulp.c", clang, flags, &["-lmpfr", "-lgmp", "-lm"]);
    let count = if effort::is_all() { "2000000" } else { "100000" };
    let text = output(Command::new(&program.file).args(["-", "-", count])).unwrap();
    let documented = documented();
    let mut measured = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, error, "ulp", ..] = words[..] else { panic!("{text}") };
        let limit = documented.iter().find(|((known, of), _)| known == name && *of == kind);
        let (_, limit) = limit.unwrap_or_else(|| panic!("{name} of {kind} is not documented"));
        // The table has two decimals.
        assert!(error.parse::<f64>().unwrap() <= limit + 0.005, "{line}\ndocumented: {limit}");
        assert!(line.contains(" 0 wrong,"), "{text}");
        measured += 1;
    }
    assert_eq!(measured, documented.len());
}

#[test]
fn loops_over_functions_are_vectorised() {
    /// Functions with loops of their own.
    const SERIAL: [&str; 2] = ["fmod", "remainder"];
    let Some(clang) = clangs().pop() else { return };
    let folder = tempfile::tempdir().unwrap();
    let targets = [
        "--target=x86_64-linux-gnu",
        "--target=x86_64-linux-gnu -march=x86-64-v3",
        "--target=x86_64-linux-gnu -march=x86-64-v4",
        "--target=aarch64-linux-gnu",
    ];
    for target in targets {
        let flags = format!("-O3 {target} -ffreestanding -Rpass=loop-vectorize");
        let (object, remarks) = object(clang, &flags, "loops.c", &folder);
        let functions = functions(&object);
        assert!(functions.len() > 60, "{} functions", functions.len());
        let vectorised = remarks.lines().filter(|line| line.contains("vectorized loop")).count();
        let serial = 2 * SERIAL.len();
        assert_eq!(vectorised, functions.len() - serial, "{target}\n{remarks}");
    }
}

#[test]
fn code_for_nvidia_gpus_rounds_each_operation_and_calls_nothing() {
    let Some(clang) = clangs().pop().filter(|clang| *clang != "clang-14") else { return };
    let folder = tempfile::tempdir().unwrap();
    let flags = "--target=nvptx64-nvidia-cuda -march=sm_80 -Xclang -target-feature -Xclang +ptx78 \
                 -nogpulib -ffreestanding -O3 -S";
    let (file, _) = object(clang, flags, "loops.c", &folder);
    let text = std::fs::read_to_string(file).unwrap();
    let operations = text.lines().filter_map(|line| line.split_whitespace().next());
    let is_number = |operation: &&str| operation.ends_with(".f32") || operation.ends_with(".f64");
    let inexact: Vec<_> = operations.filter(is_number).filter(is_not_rounded).collect();
    assert!(inexact.is_empty(), "{inexact:?}");
    assert!(text.contains("fma.rn.f64") && !text.contains("fma.rn.f32"));
    assert!(!text.contains(".extern .func"));
}

/// Returns whether an operation of PTX is arithmetic without a given rounding.
fn is_not_rounded(operation: &&str) -> bool {
    let arithmetic =
        ["add.", "sub.", "mul.", "div.", "fma.", "mad.", "sqrt.", "rcp.", "ex2.", "lg2."];
    arithmetic.iter().any(|start| operation.starts_with(start)) && !operation.contains(".rn.")
}

/// Returns the functions of an object, which has no undefined symbols.
fn functions(object: &Path) -> Vec<String> {
    use object::{Object, ObjectSymbol};
    let bytes = std::fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let undefined: Vec<_> = file.symbols().filter(|symbol| symbol.is_undefined()).collect();
    let names: Vec<_> = undefined.iter().filter_map(|symbol| symbol.name().ok()).collect();
    assert!(names.iter().all(|name| name.is_empty()), "undefined: {names:?}");
    let symbols = file.symbols().filter(|symbol| symbol.is_global());
    symbols.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect()
}
