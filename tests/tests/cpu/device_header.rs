//! `include/longshore_device.h` with every installed clang: for every target, as C and C++, without
//! warnings. `ptxas` accepts the PTX. Images for all targets describe their kernels alike. Kernels
//! on the CPU work without a runtime.

use longshore_tests::cuda::nvidia_tool;
use longshore_tests::device_code::clangs;
use longshore_tests::effort;
use longshore_tests::world::root;
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const LANGUAGES: [&str; 6] = ["c99", "c11", "c17", "c++11", "c++17", "c++20"];

/// Returns all languages, or in a short test the oldest and the newest. Tests that make code have
/// their own languages.
fn languages() -> impl Iterator<Item = &'static str> {
    let is_extreme = |language: &str| matches!(language, "c99" | "c++11" | "c++20");
    LANGUAGES.into_iter().filter(move |language| effort::is_all() || is_extreme(language))
}

/// A target of the compiler.
#[derive(Clone, Copy, Debug)]
enum Target {
    Cpu(&'static str),
    Nvidia(&'static str),
    Amd(&'static str),
}

use Target::{Amd, Cpu, Nvidia};

/// The oldest clang that the header supports.
const OLDEST: u32 = 14;
/// Targets, with the first clang that supports each.
const TARGETS: [(Target, u32); 8] = [
    (Cpu("x86_64-linux-gnu"), 14),
    (Cpu("aarch64-linux-gnu"), 14),
    (Nvidia("sm_80"), 14),
    (Nvidia("sm_90"), 16),
    (Amd("gfx90a"), 14),
    (Amd("gfx1100"), 16),
    (Amd("gfx942"), 19),
    (Amd("gfx1201"), 19),
];

impl Target {
    /// Returns whether this clang compiles images of the target from CUDA or HIP only, which are
    /// C++.
    fn needs_dialect(self, clang: u32) -> bool {
        match self {
            Cpu(_) => false,
            Nvidia(_) => clang < 17,
            Amd(_) => clang < 16,
        }
    }

    fn flags(self, clang: u32) -> String {
        let dialect = "--cuda-device-only";
        match self {
            Cpu(triple) => format!("--target={triple} -fPIC -c"),
            Nvidia(arch) if self.needs_dialect(clang) => {
                format!("-x cuda {dialect} --cuda-gpu-arch={arch} -nocudainc -nocudalib -S")
            }
            Nvidia(arch) => format!(
                "--target=nvptx64-nvidia-cuda -march={arch} --cuda-feature=+ptx78 -nogpulib -S"
            ),
            Amd(arch) if self.needs_dialect(clang) => format!(
                "-x hip {dialect} --offload-arch={arch} --no-gpu-bundle-output -nogpuinc -nogpulib"
            ),
            Amd(arch) => format!("--target=amdgcn-amd-amdhsa -mcpu={arch} -nogpulib"),
        }
    }
}

/// Returns the versions of clang to test.
fn versions() -> Vec<u32> {
    let version = |clang: &str| clang.strip_prefix("clang-").and_then(|text| text.parse().ok());
    clangs().into_iter().map(|clang| version(clang).expect("its name ends with it")).collect()
}

fn source(name: &str) -> PathBuf {
    root().join("tests/fixtures/device").join(name)
}

/// Runs a program that must succeed without output.
fn run_quietly(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {}\n{said}", output.status);
}

fn compile(clang: u32, language: &str, flags: &str, source: &Path, to: &Path) {
    let mut command = Command::new(format!("clang-{clang}"));
    // Later options decide the language, if they have one.
    command.args(["-x", if language.starts_with("c++") { "c++" } else { "c" }]);
    command.args(flags.split(' ')).arg(format!("-std={language}"));
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-unused-command-line-argument"]);
    command.arg("-I").arg(root().join("include"));
    run_quietly(command.arg(source).arg("-o").arg(to));
}

/// Returns an image of `everything.c`, or `None` if the clang cannot make it.
fn image(
    clang: u32,
    (target, since): (Target, u32),
    language: &str,
    level: &str,
    folder: &Path,
) -> Option<PathBuf> {
    let is_c = !language.starts_with("c++");
    if clang < since || is_c && target.needs_dialect(clang) {
        return None;
    }
    let flags = format!("{} -ffreestanding {level}", target.flags(clang));
    let image = folder.join("image");
    compile(clang, language, &flags, &source("everything.c"), &image);
    Some(image)
}

/// Compiles for a kind of target: in every language without code generation, in C++ without
/// optimisation, and, where possible, in C with full optimisation. The images describe their
/// kernels as an image for this CPU does.
fn compiles(is_wanted: fn(Target) -> bool, check: impl Fn(Target, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let Some(newest) = versions().pop() else { return };
    // C and C++ use different texts for a parameter by value.
    let expected = ["c11", "c++17"].map(|language| {
        let image = image(newest, TARGETS[0], language, "-O0", folder.path());
        let described = descriptions(&image.expect("every clang makes images for CPUs"));
        assert!(described.len() > 10, "{} kernels", described.len());
        described
    });
    for clang in versions() {
        for target in TARGETS.into_iter().filter(|(target, _)| is_wanted(*target)) {
            for language in languages() {
                image(clang, target, language, "-fsyntax-only", folder.path());
            }
            let optimised = if target.0.needs_dialect(clang) { "c++17" } else { "c11" };
            for (language, level) in [("c++17", "-O0"), (optimised, "-O3")] {
                // Code without optimisation is large; one architecture of each vendor is enough.
                if level == "-O0" && target.1 > OLDEST {
                    continue;
                }
                if let Some(image) = image(clang, target, language, level, folder.path()) {
                    let expected = &expected[usize::from(language.starts_with("c++"))];
                    let is_same = descriptions(&image) == *expected;
                    assert!(is_same, "clang {clang}, {language} {level}: {:?}", target.0);
                    check(target.0, &image);
                }
            }
        }
    }
}

#[test]
fn clangs_compile_everything_for_cpus_with_the_same_descriptions() {
    compiles(|target| matches!(target, Cpu(_)), |_, _| {});
}

#[test]
fn clangs_compile_everything_for_amd_gpus_with_the_same_descriptions() {
    compiles(|target| matches!(target, Amd(_)), |_, _| {});
}

#[test]
fn clangs_compile_everything_for_nvidia_gpus_with_the_same_descriptions_and_ptxas_takes_it() {
    let ptxas = nvidia_tool("ptxas");
    if ptxas.is_none() {
        println!("ptxas is not installed; the PTX was not assembled");
    }
    let assemble = |target, image: &Path| {
        if let (Nvidia(arch), Some(ptxas)) = (target, &ptxas) {
            let cubin = image.with_extension("cubin");
            run_quietly(Command::new(ptxas).args(["-arch", arch, "-o"]).arg(cubin).arg(image));
        }
    };
    compiles(|target| matches!(target, Nvidia(_)), assemble);
}

/// Returns the descriptions of kernels in an ELF file.
fn descriptions_of_elf(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let file = object::File::parse(bytes).unwrap();
    let named = file.symbols().filter_map(|symbol| {
        let name = symbol.name().ok()?.strip_prefix("__longshore_kernel_")?.to_owned();
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        let data = section.data_range(symbol.address(), symbol.size()).ok()??;
        Some((name, data.to_vec()))
    });
    named.collect()
}

/// Returns the descriptions of kernels in PTX: `.b8 __longshore_kernel_NAME[BYTES] = {1, 0, ...};`.
/// Zeros at the end may be missing.
fn descriptions_of_ptx(text: &str) -> BTreeMap<String, Vec<u8>> {
    let lines = text.lines().filter_map(|line| line.split_once(" __longshore_kernel_"));
    let named = lines.filter_map(|(_, line)| {
        let (name, rest) = line.split_once('[')?;
        let (length, values) = rest.split_once("] = {")?;
        let values = values.strip_suffix("};")?.split(", ");
        let mut bytes: Vec<u8> = values.map(|value| value.parse().unwrap()).collect();
        bytes.resize(length.parse().unwrap(), 0);
        Some((name.to_owned(), bytes))
    });
    named.collect()
}

fn descriptions(image: &Path) -> BTreeMap<String, Vec<u8>> {
    let bytes = std::fs::read(image).unwrap();
    match std::str::from_utf8(&bytes) {
        Ok(text) => descriptions_of_ptx(text),
        Err(_) => descriptions_of_elf(&bytes),
    }
}

#[test]
fn kernels_on_the_cpu_compute_their_results() {
    if !cfg!(target_arch = "x86_64") {
        println!("this is no x86-64; nothing was tried");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("meaning");
    for clang in versions() {
        for language in ["c11", "c++11"] {
            for flags in ["-O0", "-O3", "-O3 -march=x86-64-v3"] {
                if flags.contains("v3") && !std::is_x86_feature_detected!("avx2") {
                    continue;
                }
                // The operations are the same in C++.
                if language == "c++11" && flags != "-O3" && !effort::is_all() {
                    continue;
                }
                let flags = format!("{flags} -Wl,-lm");
                compile(clang, language, &flags, &source("meaning.c"), &program);
                run_quietly(&mut Command::new(&program));
            }
        }
    }
}
