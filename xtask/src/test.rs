//! `cargo xtask test`: everything that can be tested on this machine.

use crate::{offload_library, process, prose, root};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// A package of Debian that tests use.
struct Package {
    name: &'static str,
    /// A program of it, and arguments with which it does nothing.
    probe: (&'static str, &'static [&'static str]),
    /// What is not tested without it.
    skipped: &'static str,
}

const VERSION: &[&str] = &["--version"];
/// The machine that an emulator stands in for.
const EMULATED: &str = "aarch64-unknown-linux-gnu";
/// Returns a package of one of the compilers by which kernels, profiles and `longshore cc` are tested.
const fn compiler(name: &'static str, program: &'static str) -> Package {
    Package {
        name,
        probe: (program, VERSION),
        skipped: "kernels, profiles and `longshore cc` with this version",
    }
}

const PACKAGES: [Package; 36] = [
    Package {
        name: "gcc",
        probe: ("gcc", VERSION),
        skipped: "nothing can be linked; the headers as C99",
    },
    Package { name: "g++", probe: ("g++", VERSION), skipped: "the headers as C++17" },
    Package { name: "make", probe: ("make", VERSION), skipped: "the sample plugin in C" },
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
        skipped: "the headers with clang; images and coverage that clang makes",
    },
    Package {
        name: "bindgen",
        probe: ("bindgen", VERSION),
        skipped: "that the header of the C API declares what LLVM's does",
    },
    Package {
        name: "clang-tools-19",
        probe: ("clang-offload-bundler-19", VERSION),
        skipped: "containers of images beside LLVM's tools",
    },
    Package { name: "lld-19", probe: ("ld.lld-19", VERSION), skipped: "images that lld links" },
    Package {
        name: "llvm-19",
        probe: ("llvm-profdata-19", VERSION),
        skipped: "reading of profiles by llvm-profdata; bitcode that is compiled as it is called",
    },
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
        skipped: "images that have LLVM's profile runtime",
    },
    Package {
        name: "valgrind",
        probe: ("valgrind", VERSION),
        skipped: "the sample plugin and the C API's programs under valgrind",
    },
    Package { name: "gdb", probe: ("gdb", VERSION), skipped: "linked code in the debugger" },
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
        skipped: "programs in C++ for AArch64, below an emulator",
    },
    Package {
        name: "qemu-user-static",
        probe: ("qemu-aarch64-static", VERSION),
        skipped: "running what was linked for AArch64",
    },
    Package {
        name: "python3-pip",
        probe: ("python3", &["-m", "pip", "--version"]),
        skipped: "linking Lua",
    },
    Package { name: "xz-utils", probe: ("xz", VERSION), skipped: "linking zlib and zstd" },
    Package { name: "bzip2", probe: ("bzip2", &["--help"]), skipped: "linking zlib and zstd" },
    Package {
        name: "glslang-tools",
        probe: ("glslangValidator", VERSION),
        skipped: "images in SPIR-V, which are written in GLSL",
    },
    Package {
        name: "spirv-tools",
        probe: ("spirv-val", VERSION),
        skipped: "images in SPIR-V, which it links; validation of modules before the driver sees them",
    },
    Package {
        name: "libvulkan1",
        probe: ("sh", &["-c", "ldconfig -p | grep -q 'libvulkan[.]so[.]1'"]),
        skipped: "anything on Vulkan: it is the loader of its drivers",
    },
    Package {
        name: "mesa-vulkan-drivers",
        probe: ("sh", &["-c", "test -f /usr/share/vulkan/icd.d/lvp_icd.*"]),
        skipped: "Vulkan on lavapipe",
    },
    Package {
        name: "libamdhip64-5",
        probe: ("sh", &["-c", "ldconfig -p | grep -q 'libamdhip64[.]so[.]5'"]),
        skipped: "AMD's GPUs on the real HIP runtime, which says that there is no device",
    },
    Package {
        name: "libamdhip64-dev",
        probe: ("test", &["-f", "/usr/include/hip/hip_runtime_api.h"]),
        skipped: "that HIP's functions, constants and structures are those of its header",
    },
    Package {
        name: "vulkan-validationlayers",
        probe: ("test", &["-f", VALIDATION_LAYER]),
        skipped: "that Vulkan is used as its specification says",
    },
];
const VALIDATION_LAYER: &str = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
/// The package with SwiftShader in it, and the files that are all of it.
const SWIFTSHADER: (&str, [&str; 2]) = (
    "chromium-common",
    ["./usr/lib/chromium/libvk_swiftshader.so", "./usr/lib/chromium/vk_swiftshader_icd.json"],
);

/// Variables that make tests short: lives of an image on each device, seconds of a stress, images with a bit flipped.
const SHORT: [(&str, &str); 3] = [
    ("LONGSHORE_ROUNDS", "100"),
    ("LONGSHORE_STRESS_SECONDS", "1"),
    ("LONGSHORE_FLIPPED_BITS", "250"),
];
/// Has tests try all compilers, programs and devices, and not a choice of those that are alike.
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
/// The packages with tests. Benchmarks have dependencies of their own that take long to build.
pub(crate) const TESTED: [&str; 3] = ["--workspace", "--exclude", BENCHMARKS];
/// Tells tests that the whole workspace is built: building packages one by one would build their dependencies again, with
/// fewer features.
pub const BUILT: &str = "LONGSHORE_TEST_BUILT";

impl Package {
    fn is_missing(&self) -> bool {
        !process::starts(self.probe.0, self.probe.1)
    }
}

/// Builds what tests load, then runs all tests, the documentation's too. With `install`, installs the
/// packages that tests use; with `all`, runs rounds and stress tests in their long forms,
/// lints the benchmarks, which no other task but `bench` builds, and checks the fuzz targets.
///
/// # Errors
/// A package that cannot be installed; a build or a test that fails.
pub fn run(install: bool, all: bool) -> Result<()> {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| package.is_missing()).collect();
    if install && !missing.is_empty() {
        install_packages(&missing)?;
    }
    if install {
        // Without it, and without rustup, what runs below an emulator is skipped.
        let _ = process::run(Command::new("rustup").args(["target", "add", EMULATED]));
    }
    if install && !ptxas().is_file() {
        install_ptxas()?;
    }
    if install && !swiftshader().join("vk_swiftshader_icd.json").is_file() {
        install_swiftshader()?;
    }
    if !swiftshader().is_dir() {
        println!("not installed: SwiftShader. Not tested: Vulkan on it, and with two devices");
    }
    if !ptxas().is_file() && !process::starts("ptxas", VERSION) {
        println!(
            "not installed: ptxas. Not tested: that it takes the PTX of the device header; cubins"
        );
    }
    for package in missing.iter().filter(|package| package.is_missing()) {
        println!("not installed: {}. Not tested: {}", package.name, package.skipped);
    }
    // Tests run the command and load the plugins from the target folder. With the targets of tests, dependencies have the same
    // features as in the next two steps, and are built once.
    process::run(cargo(&["build", "--all-targets"]).args(TESTED))?;
    prose::run_built()?;
    offload_library::link(&process::target_folder().join("debug"))?;
    process::run(cargo(&["test", "--doc"]).args(TESTED))?;
    if process::starts("cargo", &["nextest", "--version"]) {
        let threads = test_threads().to_string();
        let mut nextest = cargo(&["nextest", "run", "--no-fail-fast", "--test-threads", &threads]);
        process::run(sized(nextest.args(TESTED), all).env(BUILT, "1"))?;
    } else {
        // Tests of a program share a process here, and some look at all of it.
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

/// Number of tests that run at once: more than there are processors, as some wait for a download, a driver or a process.
fn test_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors + processors.div_ceil(2)
}

/// Has tests run in their short forms, unless all is tried or the user says how much.
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

/// `cargo`; on a build machine without debug information, which nobody would look at there.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = process::cargo(arguments);
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
    }
    command
}

fn install_packages(packages: &[&Package]) -> Result<()> {
    process::run_quietly(&mut apt_get(&["update"]))?;
    let install = ["install", "--yes", "--no-install-recommends"];
    let names: Vec<_> = packages.iter().map(|package| package.name).collect();
    process::run_quietly(apt_get(&install).args(names))
}

/// NVIDIA's assembler, where tests look for it.
fn ptxas() -> PathBuf {
    root().join("target/nvcc/nvidia/cu13/bin/ptxas")
}

/// Installs NVIDIA's assembler from its Python package, into the target folder.
fn install_ptxas() -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    process::run_quietly(pip.arg(root().join("target/nvcc")).arg("nvidia-cuda-nvcc"))
}

/// Returns a Vulkan driver for the CPU that lacks much of what others have, where tests look for it.
fn swiftshader() -> PathBuf {
    root().join("target/swiftshader")
}

/// Takes SwiftShader's files out of the package, which is not installed.
fn install_swiftshader() -> Result<()> {
    let (package, files) = SWIFTSHADER;
    let folder = swiftshader();
    // What is cut off half-way lies elsewhere.
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
