//! `cargo xtask test`: all tests that this machine can run.

use crate::shared_library::{OFFLOAD, OPENMP};
use crate::{openmp_libraries, process, prose, root};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// A Debian package that tests use.
struct Package {
    name: &'static str,
    /// A program of the package, and arguments with which it does nothing.
    probe: (&'static str, &'static [&'static str]),
    /// The part of the tests that is skipped without the package.
    skipped: &'static str,
}

const VERSION: &[&str] = &["--version"];
/// The target machine of the emulator.
const EMULATED: &str = "aarch64-unknown-linux-gnu";
/// Returns the package of a compiler for the tests of kernels, profiles and `longshore cc`.
const fn compiler(name: &'static str, program: &'static str) -> Package {
    Package {
        name,
        probe: (program, VERSION),
        skipped: "kernels, profiles and `longshore cc` with this version",
    }
}

/// Returns the package of the tools that embed images into OpenMP programs.
const fn openmp_tools(name: &'static str, program: &'static str) -> Package {
    Package { name, probe: (program, VERSION), skipped: "OpenMP programs of this compiler" }
}

const PACKAGES: [Package; 51] = [
    Package {
        name: "gcc",
        probe: ("gcc", VERSION),
        skipped: "nothing can be linked; the headers as C99",
    },
    Package { name: "g++", probe: ("g++", VERSION), skipped: "the headers as C++17" },
    Package { name: "make", probe: ("make", VERSION), skipped: "the sample plugin in C" },
    Package { name: "patch", probe: ("patch", VERSION), skipped: "the guide to plugins in C" },
    Package {
        name: "cmake",
        probe: ("cmake", VERSION),
        skipped: "programs that find the C API by CMake",
    },
    Package {
        name: "pkgconf",
        probe: ("pkg-config", VERSION),
        skipped: "programs that find the C API by pkg-config",
    },
    Package {
        name: "clang-19",
        probe: ("clang-19", VERSION),
        skipped: "the headers with clang; images and coverage from clang; bitcode compiled at its first call",
    },
    Package {
        name: "bindgen",
        probe: ("bindgen", VERSION),
        skipped: "the comparison of the C API's header with LLVM's",
    },
    Package {
        name: "clang-tools-19",
        probe: ("clang-offload-bundler-19", VERSION),
        skipped: "containers of images beside LLVM's tools",
    },
    Package { name: "lld-19", probe: ("ld.lld-19", VERSION), skipped: "images linked by lld" },
    Package {
        name: "llvm-19",
        probe: ("llvm-profdata-19", VERSION),
        skipped: "reading of profiles by llvm-profdata",
    },
    Package {
        name: "libomp-19-dev",
        probe: ("test", &["-f", "/usr/lib/llvm-19/lib/libomptarget.so"]),
        skipped: "OpenMP programs with images for GPUs",
    },
    Package {
        name: "flang-19",
        probe: ("flang-new-19", VERSION),
        skipped: "OpenMP programs in Fortran",
    },
    Package {
        name: "flang-22",
        probe: ("flang-22", VERSION),
        skipped: "OpenMP programs in Fortran with this version",
    },
    openmp_tools("clang-tools-14", "clang-offload-wrapper-14"),
    openmp_tools("clang-tools-16", "clang-linker-wrapper-16"),
    openmp_tools("clang-tools-22", "clang-linker-wrapper-22"),
    compiler("clang-14", "clang-14"),
    compiler("lld-14", "ld.lld-14"),
    compiler("llvm-14", "llvm-link-14"),
    compiler("clang-16", "clang-16"),
    compiler("lld-16", "ld.lld-16"),
    compiler("llvm-16", "llvm-link-16"),
    compiler("clang-22", "clang-22"),
    compiler("lld-22", "ld.lld-22"),
    compiler("llvm-22", "llvm-link-22"),
    Package {
        name: "libclang-rt-19-dev",
        probe: ("test", &["-d", "/usr/lib/llvm-19/lib/clang/19/lib/linux"]),
        skipped: "images with LLVM's profile runtime",
    },
    Package {
        name: "libmpfr-dev",
        probe: ("test", &["-f", "/usr/include/mpfr.h"]),
        skipped: "errors and special values of mathematical functions",
    },
    Package {
        name: "valgrind",
        probe: ("valgrind", VERSION),
        skipped: "the sample plugin and the C API's programs under valgrind",
    },
    Package { name: "gdb", probe: ("gdb", VERSION), skipped: "linked code and kernels in gdb" },
    Package { name: "lldb-19", probe: ("lldb-19", VERSION), skipped: "kernels in lldb" },
    Package {
        name: "linux-perf",
        probe: ("perf", VERSION),
        skipped: "linked code in the profiler",
    },
    Package {
        name: "gcc-aarch64-linux-gnu",
        probe: ("aarch64-linux-gnu-gcc", VERSION),
        skipped: "linking for AArch64 beside the system's linker",
    },
    Package {
        name: "g++-aarch64-linux-gnu",
        probe: ("aarch64-linux-gnu-g++", VERSION),
        skipped: "C++ programs for AArch64 in an emulator",
    },
    Package {
        name: "qemu-user-static",
        probe: ("qemu-aarch64-static", VERSION),
        skipped: "running of programs linked for AArch64",
    },
    Package {
        name: "python3-pip",
        probe: ("python3", &["-m", "pip", "--version"]),
        skipped: "linking Lua",
    },
    Package { name: "xz-utils", probe: ("xz", VERSION), skipped: "linking zlib and zstd" },
    Package { name: "rpm", probe: ("rpmbuild", VERSION), skipped: "RPM packages" },
    Package { name: "zstd", probe: ("zstd", VERSION), skipped: "archives of an installation" },
    Package { name: "bzip2", probe: ("bzip2", &["--help"]), skipped: "linking zlib and zstd" },
    Package {
        name: "glslang-tools",
        probe: ("glslangValidator", VERSION),
        skipped: "SPIR-V images from GLSL",
    },
    Package {
        name: "spirv-tools",
        probe: ("spirv-val", VERSION),
        skipped: "linked SPIR-V images; validation of modules before the driver loads them",
    },
    Package {
        name: "openmpi-bin",
        probe: ("mpirun.openmpi", VERSION),
        skipped: "devices of other machines with Open MPI",
    },
    Package {
        name: "libopenmpi-dev",
        probe: ("mpicc.openmpi", VERSION),
        skipped: "Open MPI's constants; programs that use Open MPI themselves",
    },
    Package {
        name: "mpich",
        probe: ("mpirun.mpich", VERSION),
        skipped: "devices of other machines with MPICH",
    },
    Package {
        name: "libmpich-dev",
        probe: ("mpicc.mpich", VERSION),
        skipped: "MPICH's constants; programs that use MPICH themselves",
    },
    Package {
        name: "libvulkan1",
        probe: ("sh", &["-c", "ldconfig -p | grep -q 'libvulkan[.]so[.]1'"]),
        skipped: "everything on Vulkan: the package is the loader of its drivers",
    },
    Package {
        name: "mesa-vulkan-drivers",
        probe: ("sh", &["-c", "test -f /usr/share/vulkan/icd.d/lvp_icd.*"]),
        skipped: "Vulkan on lavapipe",
    },
    Package {
        name: "libamdhip64-5",
        probe: ("sh", &["-c", "ldconfig -p | grep -q 'libamdhip64[.]so[.]5'"]),
        skipped: "the AMDGPU backend on the real HIP runtime, which reports no device",
    },
    Package {
        name: "libamdhip64-dev",
        probe: ("test", &["-f", "/usr/include/hip/hip_runtime_api.h"]),
        skipped: "the comparison of HIP's functions, constants and structures with its header",
    },
    Package {
        name: "vulkan-validationlayers",
        probe: ("test", &["-f", VALIDATION_LAYER]),
        skipped: "valid usage of Vulkan",
    },
];
const VALIDATION_LAYER: &str = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
/// The package that contains SwiftShader, and SwiftShader's files in it.
const SWIFTSHADER: (&str, [&str; 2]) = (
    "chromium-common",
    ["./usr/lib/chromium/libvk_swiftshader.so", "./usr/lib/chromium/vk_swiftshader_icd.json"],
);

/// Variables that make tests short: lives of an image on each device, seconds of a stress test,
/// images with a flipped bit.
const SHORT: [(&str, &str); 3] = [
    ("LONGSHORE_ROUNDS", "100"),
    ("LONGSHORE_STRESS_SECONDS", "1"),
    ("LONGSHORE_FLIPPED_BITS", "250"),
];
/// The variable that makes tests try all compilers, programs and devices, and not only one of
/// similar ones.
const ALL: &str = "LONGSHORE_TEST_ALL";
const BENCHMARKS: &str = "longshore-benches";
/// The packages with fuzz targets.
const FUZZED: [&str; 8] = [
    "executor",
    "formats/amdgpu",
    "formats/nvidia",
    "formats/spirv",
    "host",
    "jit/bitcode",
    "jit/linker",
    "plugin-host",
];
/// The packages with tests. The dependencies of the benchmarks take long to build.
pub(crate) const TESTED: [&str; 3] = ["--workspace", "--exclude", BENCHMARKS];
/// The variable that reports a complete build of the workspace to tests. Building packages one by
/// one would build their dependencies again, with fewer features.
pub const BUILT: &str = "LONGSHORE_TEST_BUILT";

impl Package {
    fn is_missing(&self) -> bool {
        !process::starts(self.probe.0, self.probe.1)
    }
}

/// Builds the plugins and programs that tests load, then runs all tests, also of the documentation.
/// With `install`, installs the packages that tests use. With `all`, runs the long forms of rounds
/// and stress tests, lints the benchmarks, which only the task `bench` also builds, and checks the
/// fuzz targets.
///
/// # Errors
/// A package that cannot be installed; a build or a test that fails.
pub fn run(install: bool, all: bool) -> Result<()> {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| package.is_missing()).collect();
    if install && !missing.is_empty() {
        install_packages(&missing)?;
    }
    if install {
        // Without this target, and without rustup, tests below the emulator are skipped.
        let _ = process::run(Command::new("rustup").args(["target", "add", EMULATED]));
    }
    if install && !ptxas().is_file() {
        install_ptxas()?;
    }
    if install && !numpy().join("numpy").is_dir() {
        install_numpy()?;
    }
    if !numpy().join("numpy").is_dir() && !process::starts("python3", &["-c", "import numpy"]) {
        println!("not installed: NumPy. Not tested: its arrays; the page about Python");
    }
    if install && !swiftshader().join("vk_swiftshader_icd.json").is_file() {
        install_swiftshader()?;
    }
    if install && !openmp_libraries::are_installed() {
        openmp_libraries::install()?;
    }
    if !openmp_libraries::are_installed() {
        println!("not installed: LLVM's OpenMP libraries. Not tested: OpenMP programs");
    }
    if !swiftshader().is_dir() {
        println!("not installed: SwiftShader. Not tested: Vulkan on it, and with two devices");
    }
    if !ptxas().is_file() && !process::starts("ptxas", VERSION) {
        println!(
            "not installed: ptxas. Not tested: its acceptance of the device header's PTX; cubins"
        );
    }
    for package in missing.iter().filter(|package| package.is_missing()) {
        println!("not installed: {}. Not tested: {}", package.name, package.skipped);
    }
    // Tests run the command and load the plugins from the target folder. With the targets of tests,
    // dependencies have the same features as in the next two steps, and are built once.
    process::run(cargo(&["build", "--all-targets"]).args(TESTED))?;
    prose::run_built()?;
    OFFLOAD.link(&process::target_folder().join("debug"))?;
    OPENMP.link(&process::target_folder().join("debug"))?;
    run_examples()?;
    if process::starts("cargo", &["nextest", "--version"]) {
        let threads = test_threads().to_string();
        let mut nextest = cargo(&["nextest", "run", "--no-fail-fast", "--test-threads", &threads]);
        process::run(sized(nextest.args(TESTED), all).env(BUILT, "1"))?;
    } else {
        // Tests of a program share a process here, and some inspect the whole process.
        let mut test = cargo(&["test", "--no-fail-fast", "--lib", "--bins", "--tests"]);
        test.args(TESTED).args(["--", "--test-threads", "1"]);
        process::run(sized(&mut test, all).env(BUILT, "1"))?;
    }
    if all {
        let benchmarks = ["clippy", "--package", BENCHMARKS, "--all-targets", "--all-features"];
        process::run(cargo(&benchmarks).args(["--", "-D", "warnings"]))?;
        check_fuzz_targets()?;
    }
    Ok(())
}

/// Runs the examples of the documentation. An example that needs a device uses the CPU, and does
/// nothing without the plugin.
fn run_examples() -> Result<()> {
    let plugin = process::target_folder().join("debug/liblongshore_plugin_host.so");
    let mut examples = cargo(&["test", "--doc"]);
    examples.env("LONGSHORE_PLUGIN_PATH", plugin).env("LONGSHORE_BACKEND", "host");
    process::run(examples.args(TESTED))
}

/// Returns the number of concurrent tests. It exceeds the number of processors, because some tests
/// wait for a download, a driver or a process.
fn test_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors + processors.div_ceil(2)
}

/// Makes tests run in their short forms, unless `all` is set or the user has set the variables.
fn sized(command: &mut Command, all: bool) -> &mut Command {
    if all {
        command.env(ALL, "1");
    }
    for (name, value) in SHORT {
        if !all && std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command
}

/// Checks the fuzz targets, whose packages are outside the workspace.
fn check_fuzz_targets() -> Result<()> {
    for package in FUZZED {
        let manifest = root().join(package).join("fuzz/Cargo.toml");
        let mut check = cargo(&["check", "--bins", "--manifest-path"]);
        check.arg(manifest).arg("--target-dir").arg(root().join("target/fuzz"));
        process::run(&mut check)?;
    }
    Ok(())
}

/// Returns a command for `cargo`. On a build machine it makes no debug information, which is not
/// needed there.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = process::cargo(arguments);
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
    }
    command
}

fn install_packages(packages: &[&Package]) -> Result<()> {
    let names: Vec<_> = packages.iter().map(|package| package.name).collect();
    install_named(&names)
}

/// Installs Debian packages.
///
/// # Errors
/// `apt-get` that fails.
pub(crate) fn install_named(names: &[&str]) -> Result<()> {
    process::run_quietly(&mut apt_get(&["update"]))?;
    let install = ["install", "--yes", "--no-install-recommends"];
    process::run_quietly(apt_get(&install).args(names))
}

/// Returns the place where tests look for NVIDIA's assembler.
fn ptxas() -> PathBuf {
    root().join("target/nvcc/nvidia/cu13/bin/ptxas")
}

/// Installs NVIDIA's assembler from its Python package, into the target folder.
fn install_ptxas() -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    process::run_quietly(pip.arg(root().join("target/nvcc")).arg("nvidia-cuda-nvcc"))
}

/// Returns the place where tests of the package for Python look for NumPy.
fn numpy() -> PathBuf {
    root().join("target/numpy")
}

/// Installs NumPy for the Python of the tests, into the target folder.
fn install_numpy() -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    process::run_quietly(pip.arg(numpy()).arg("numpy"))
}

/// Returns the place where tests look for SwiftShader, a Vulkan driver for the CPU that lacks many
/// features of other drivers.
fn swiftshader() -> PathBuf {
    root().join("target/swiftshader")
}

/// Extracts SwiftShader's files from the package, without installing the package.
fn install_swiftshader() -> Result<()> {
    let (package, files) = SWIFTSHADER;
    let folder = swiftshader();
    // A partial download lies in a different folder.
    let unpacked = root().join("target/swiftshader-download");
    if unpacked.exists() {
        std::fs::remove_dir_all(&unpacked)?;
    }
    std::fs::create_dir_all(&unpacked)?;
    process::run_quietly(&mut apt_get(&["update"]))?;
    process::run_quietly(apt_get(&["download", package]).current_dir(&unpacked))?;
    let script =
        "dpkg-deb --fsys-tarfile $0_*.deb | tar --extract --strip-components=4 \"$@\"; rm *.deb";
    let mut unpack = Command::new("sh");
    unpack.args(["-e", "-c", script, package]).args(files).current_dir(&unpacked);
    process::run(&mut unpack)?;
    Ok(std::fs::rename(unpacked, folder)?)
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--quiet").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}
