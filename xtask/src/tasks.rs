//! `xtask-tasks`: all tasks of the repository. `cargo xtask` passes every task to it that it does
//! not do itself.

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use xtask::install::{self, Profile};
use xtask::package::{self, Format, Version, target::Architecture};
use xtask::{bench, crates, demo, gpu_check, header, mathematics, prose, python, sanitize, test};

/// The repository's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Writes plugin-api/include/longshore_plugin.h, which is compared with its frozen copy, and
    /// capi/include/OffloadAPI.h.
    Header {
        /// Rewrite the frozen copies too. Only for an unpublished interface.
        #[arg(long)]
        bless: bool,
    },
    /// Builds Longshore, compiles a kernel and runs it.
    Demo,
    /// Checks comments, documentation, messages and commit subjects.
    #[command(disable_help_flag = true)]
    Prose {
        /// Files and folders to check, or `--count`, or `--help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Runs all tests.
    Test {
        /// Install the packages that the tests use, with apt-get, as root.
        #[arg(long)]
        install: bool,
        /// Run the long forms of tests too, and check the benchmarks.
        #[arg(long)]
        all: bool,
    },
    /// Runs the benchmarks and compares them with their floors.
    Bench {
        /// Suite of benchmarks: the hot paths, or a subject beside its peers.
        #[arg(default_value = "hot-paths")]
        suite: bench::Suite,
        /// Part of the names to measure: workloads of the linker, kernels, or launches, copies,
        /// allocations, opening of AMDGPU, CUDA or Vulkan, loading of AMDGPU or CUDA.
        filter: Option<String>,
    },
    /// Checks a backend on the GPUs of this machine and appends to docs/gpu-results.md.
    GpuCheck {
        /// Backend to check.
        backend: gpu_check::Backend,
        /// Check devices that are CPUs too; their results are only printed.
        #[arg(long)]
        all: bool,
        /// Try little, as on an emulated GPU: fewer rounds, shorter stress, smaller kernels, longer
        /// time limits.
        #[arg(long)]
        small: bool,
    },
    /// Packs the crates for crates.io, builds each from its package, and builds programs of users
    /// with them. Publishes nothing.
    Crates {
        /// Build the programs of users alone.
        #[arg(long)]
        quick: bool,
    },
    /// Installs the command, the plugins, LLVM Offload's C API and their headers. The installation
    /// can be moved.
    Install {
        /// Folder for bin, lib, include and share.
        #[arg(long)]
        prefix: PathBuf,
        /// Build without optimization.
        #[arg(long)]
        debug: bool,
    },
    /// Builds the wheel for Python, and tests it with each version of Python found.
    Python {
        /// Build without optimization, for this machine alone.
        #[arg(long)]
        debug: bool,
        /// Architecture of the wheel. By default this machine's; a wheel for another is not tested.
        #[arg(long)]
        arch: Option<Architecture>,
        /// Further package for the tests, such as torch.
        #[arg(long)]
        with: Vec<String>,
        /// Build the wheel and do not test it.
        #[arg(long)]
        no_tests: bool,
    },
    /// Makes packages for Debian, for systems with RPM, and archives for others.
    Package {
        /// Install the Debian packages with the tools, with apt-get, as root.
        #[arg(long)]
        install: bool,
        /// Architectures of the packages.
        #[arg(long, value_delimiter = ',', default_value = "amd64,arm64")]
        arch: Vec<Architecture>,
        /// Formats of the packages.
        #[arg(long, value_delimiter = ',', default_value = "deb,rpm,archive")]
        format: Vec<Format>,
        /// Folder for the packages. By default `target/packages`.
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Tests packages: RPM packages below a folder, Debian packages in new systems of Debian.
    /// Installs, uses, upgrades and removes them. Needs root, `debootstrap` and a network.
    PackageTest {
        /// Folder with the packages. By default `target/packages`.
        #[arg(long)]
        packages: Option<PathBuf>,
        /// Releases of Debian.
        #[arg(default_values = ["bullseye", "bookworm", "trixie", "sid"])]
        releases: Vec<String>,
    },
    /// Measures errors of mathematical functions for kernels, in units in the last place.
    Ulp {
        /// Name of a function or `-`; `f32`, `f64` or `-`; number of random arguments. By default,
        /// functions of one `float` get all arguments, and others 10^8.
        arguments: Vec<String>,
    },
    /// Runs Miri and ThreadSanitizer, with a nightly toolchain.
    Sanitize,
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Header { bless } => header::run(bless),
        Task::Demo => demo::run(),
        Task::Crates { quick } => crates::run(quick),
        Task::Prose { arguments } => prose::run(&arguments),
        Task::Test { install, all } => test::run(install, all),
        Task::Bench { suite, filter } => bench::run(suite, filter.as_deref()),
        Task::GpuCheck { backend, all, small } => gpu_check::run(backend, all, small),
        Task::Install { prefix, debug } => {
            install::run(&prefix, if debug { Profile::Dev } else { Profile::Release })
        }
        Task::PackageTest { packages, releases } => {
            let packages = packages.unwrap_or_else(|| xtask::root().join("target/packages"));
            package::rpm_system::test(&packages)?;
            package::chroot::test(&packages, &releases)
        }
        Task::Package { install, arch, format, output } => {
            if install {
                package::install_tools()?;
            }
            package::run(&package::Options {
                architectures: arch,
                formats: format,
                output: match output {
                    Some(output) => std::path::absolute(output)?,
                    None => xtask::root().join("target/packages"),
                },
                version: Version::from_checkout()?,
                compression: package::Compression::Best,
            })
        }
        Task::Ulp { arguments } => mathematics::ulp(&arguments),
        Task::Python { debug, arch, with, no_tests } => {
            let architecture = arch.unwrap_or_else(Architecture::native);
            python::run(&python::Options { debug, architecture, with, no_tests })
        }
        Task::Sanitize => sanitize::run(),
    }
}
