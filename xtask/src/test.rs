//! `cargo xtask test`: everything that can be tested on this machine.

use crate::{header, process};
use anyhow::Result;
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
/// Before 19 it has no version.
const PROFDATA_HELP: &[&str] = &["show", "--help"];

const PACKAGES: [Package; 22] = [
    Package {
        name: "gcc",
        probe: ("gcc", VERSION),
        skipped: "nothing can be linked; the header as C99",
    },
    Package { name: "g++", probe: ("g++", VERSION), skipped: "the header as C++17" },
    Package { name: "make", probe: ("make", VERSION), skipped: "the sample plugin in C" },
    Package {
        name: "clang-19",
        probe: ("clang-19", VERSION),
        skipped: "the header with clang; images and coverage that clang makes",
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
        skipped: "reading of profiles by llvm-profdata",
    },
    Package {
        name: "libclang-rt-19-dev",
        probe: ("test", &["-d", "/usr/lib/llvm-19/lib/clang/19/lib/linux"]),
        skipped: "images that have LLVM's profile runtime",
    },
    Package {
        name: "clang-14",
        probe: ("clang-14", VERSION),
        skipped: "profiles of kernels that clang 14 makes",
    },
    Package {
        name: "llvm-14",
        probe: ("llvm-profdata-14", PROFDATA_HELP),
        skipped: "reading of profiles by llvm-profdata 14",
    },
    Package {
        name: "clang-16",
        probe: ("clang-16", VERSION),
        skipped: "profiles of kernels that clang 16 makes",
    },
    Package {
        name: "llvm-16",
        probe: ("llvm-profdata-16", PROFDATA_HELP),
        skipped: "reading of profiles by llvm-profdata 16",
    },
    Package {
        name: "clang-22",
        probe: ("clang-22", VERSION),
        skipped: "profiles of kernels that clang 22 makes",
    },
    Package {
        name: "llvm-22",
        probe: ("llvm-profdata-22", PROFDATA_HELP),
        skipped: "reading of profiles by llvm-profdata 22",
    },
    Package {
        name: "valgrind",
        probe: ("valgrind", VERSION),
        skipped: "the sample plugin under valgrind",
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
];

impl Package {
    fn is_missing(&self) -> bool {
        !process::starts(self.probe.0, self.probe.1)
    }
}

/// Builds what tests load, then runs all tests, the documentation's too, and checks the header.
///
/// # Errors
/// A package that cannot be installed; a build or a test that fails.
pub fn run(install: bool) -> Result<()> {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| package.is_missing()).collect();
    if install && !missing.is_empty() {
        install_packages(&missing)?;
    }
    for package in missing.iter().filter(|package| package.is_missing()) {
        println!("not installed: {}. Not tested: {}", package.name, package.skipped);
    }
    header::check()?;
    // Tests run the command and load the plugins from the target folder.
    process::run(&mut cargo(&["build", "--workspace", "--exclude", "xtask"]))?;
    process::run(&mut cargo(&["test", "--workspace", "--doc"]))?;
    if process::starts("cargo", &["nextest", "--version"]) {
        return process::run(&mut cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]));
    }
    let targets = ["--lib", "--bins", "--tests"];
    process::run(cargo(&["test", "--workspace", "--no-fail-fast"]).args(targets))
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
    process::run(&mut apt_get(&["update"]))?;
    let install = ["install", "--yes", "--no-install-recommends"];
    let names: Vec<_> = packages.iter().map(|package| package.name).collect();
    process::run(apt_get(&install).args(names))
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--quiet").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}
