//! `cargo xtask package`: packages for Debian, for systems with RPM, and archives for others.
//!
//! One build serves all formats of an architecture. Its files are installed once for each layout
//! of folders and divided among the packages of `package/list.rs`. Two builds of a commit give
//! equal packages, byte by byte.

mod archive;
pub mod chroot;
mod deb;
mod elf;
mod licences;
pub mod list;
mod rpm;
pub mod rpm_system;
pub mod target;
pub(crate) mod toolchain;
mod tree;
pub mod version;

use crate::files::files_below;
use crate::install::{self, Built, Layout};
use crate::shared_library::Linker;
use crate::{process, root, test};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use licences::Dependencies;
use list::{PACKAGES, Package, owner};
use std::path::{Path, PathBuf};
use std::process::Command;
use target::Architecture;
pub use version::Version;

/// A format of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Packages of Debian.
    Deb,
    /// Packages of RPM.
    Rpm,
    /// Compressed archives.
    Archive,
}

/// The compression of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// The smallest packages.
    Best,
    /// Packages that are soon made, for tests.
    Fast,
}

/// The packages to make.
#[derive(Debug)]
pub struct Options {
    /// The architectures, in any order.
    pub architectures: Vec<Architecture>,
    /// The formats.
    pub formats: Vec<Format>,
    /// The folder of the packages.
    pub output: PathBuf,
    /// The version of the packages.
    pub version: Version,
    /// The compression of the packages.
    pub compression: Compression,
}

/// The parts of a package that all formats have.
struct Parts<'a> {
    package: &'a Package,
    architecture: Architecture,
    options: &'a Options,
    /// Licences of the crates in the files.
    licences: &'a str,
}

/// Debian packages with the tools of the task. Images of the conformance suite are made by `clang`
/// and Khronos' tools.
const TOOLS: [&str; 15] = [
    "clang-19",
    "clang-22",
    "dpkg-dev",
    "gcc-aarch64-linux-gnu",
    "gcc-x86-64-linux-gnu",
    "glslang-tools",
    // Cross compilers only recommend their headers.
    "libc6-dev-amd64-cross",
    "libc6-dev-arm64-cross",
    "lintian",
    "lld-19",
    "lld-22",
    "python3-pip",
    "rpm",
    "spirv-tools",
    "zstd",
];

/// Installs the tools of the task, as root.
///
/// # Errors
/// `apt-get` that fails.
pub fn install_tools() -> Result<()> {
    // A compiler for the machine's own architecture has the name with the triplet too.
    let native = Architecture::native();
    let compiler = native.triplet().replace('_', "-");
    let headers = format!("-{}-cross", native.debian());
    let is_other = |name: &&&str| !name.ends_with(&compiler) && !name.ends_with(&headers);
    let tools: Vec<&str> = TOOLS.iter().filter(is_other).copied().chain(["gcc"]).collect();
    test::install_named(&tools)
}

/// Builds Longshore for each architecture and writes all packages, with their SHA-256 sums in
/// `SHA256SUMS`.
///
/// # Errors
/// A tool that is missing or fails; a file that needs a later glibc than promised.
pub fn run(options: &Options) -> Result<()> {
    prepare(&options.output)?;
    let target_folder = target_folder();
    let native = Architecture::native();
    let command = target_folder.join(native.release()).join("longshore");
    let mut architectures = options.architectures.clone();
    // The manual pages and completions of all packages come from the command for this machine.
    if !architectures.contains(&native) {
        toolchain::install(native)?;
        toolchain::build(native, &target_folder)?;
    }
    architectures.sort_by_key(|architecture| *architecture != native);
    for architecture in architectures {
        toolchain::install(architecture)?;
        let folder = toolchain::build(architecture, &target_folder)?;
        let linker = toolchain::linker(architecture)?;
        let built = Built { folder, command: command.clone(), linker };
        pack(&built, architecture, options, elf::Requirement::OldGlibc)?;
    }
    sum(&options.output)
}

/// Writes all packages of the files in cargo's folder `folder`, which were built for this machine
/// in any way, with their sums. The packages are for tests: their files may need a later glibc.
///
/// # Errors
/// A tool that is missing or fails.
pub fn run_built(folder: &Path, options: &Options) -> Result<()> {
    prepare(&options.output)?;
    let command = folder.join("longshore");
    let linker = Linker::for_this_machine();
    let built = Built { folder: folder.to_owned(), command, linker };
    pack(&built, Architecture::native(), options, elf::Requirement::AnyGlibc)?;
    sum(&options.output)
}

/// Returns cargo's folder of builds for an old glibc.
pub(crate) fn target_folder() -> PathBuf {
    root().join("target/old-glibc")
}

/// Makes the folder of the packages, and removes older packages of Longshore from it.
fn prepare(output: &Path) -> Result<()> {
    std::fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    for old in packages_in(output)? {
        let old = output.join(old);
        std::fs::remove_file(&old).with_context(|| old.display().to_string())?;
    }
    Ok(())
}

/// Returns the names of Longshore's packages in a folder, and of no other files, sorted.
fn packages_in(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_package(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns whether a file with this name is a package of Longshore in one of the formats. A version
/// begins with a digit; other names may begin with that of a package.
fn is_package(name: &str) -> bool {
    let has_format = [".deb", ".rpm", ".tar.zst"].iter().any(|end| name.ends_with(end));
    let is_version = |rest: &str| {
        let version = rest.strip_prefix(['_', '-']);
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    has_format
        && PACKAGES.iter().any(|package| name.strip_prefix(package.name).is_some_and(is_version))
}

/// Writes the packages of a build.
fn pack(
    built: &Built,
    architecture: Architecture,
    options: &Options,
    glibc: elf::Requirement,
) -> Result<()> {
    let dependencies = Dependencies::read(architecture.rust())?;
    let scratch = options.output.join(format!("unfinished-{}", architecture.debian()));
    tree::remove(&scratch)?;
    for &format in &options.formats {
        let layout = format.layout(architecture);
        let installed = scratch.join("installed");
        install::put_built(built, &installed, layout)?;
        strip(architecture, &installed.join("lib"))?;
        strip(architecture, &installed.join(layout.libraries))?;
        elf::check(&installed, glibc)?;
        for package in &PACKAGES {
            let files = scratch.join("files");
            let below = files.join(format.prefix(&options.version));
            choose(package, &installed, &below, layout)?;
            let licences = &dependencies.licences(package.crates)?;
            let parts = Parts { package, architecture, options, licences };
            let file = match format {
                Format::Deb => deb::write(&parts, &files)?,
                Format::Rpm => rpm::write(&parts, &files, &scratch.join("rpm"))?,
                Format::Archive => archive::write(&parts, &files)?,
            };
            println!("{}", file.display());
            tree::remove(&files)?;
        }
        tree::remove(&installed)?;
    }
    tree::remove(&scratch)
}

impl Format {
    fn layout(self, architecture: Architecture) -> Layout {
        match self {
            Format::Deb => Layout {
                libraries: architecture.debian_libraries(),
                zsh: "share/zsh/vendor-completions",
            },
            Format::Rpm => Layout { libraries: "lib64", ..Layout::MOVABLE },
            Format::Archive => Layout::MOVABLE,
        }
    }

    /// Returns the folder of a package's files.
    fn prefix(self, version: &Version) -> String {
        match self {
            Format::Deb | Format::Rpm => "usr".to_owned(),
            Format::Archive => format!("longshore-{}", version.upstream),
        }
    }
}

/// Copies the files of a package.
///
/// # Errors
/// A file that is in no package; a package without files.
fn choose(package: &Package, installed: &Path, to: &Path, layout: Layout) -> Result<()> {
    let mut is_empty = true;
    for file in files_below(installed)? {
        let name = file.strip_prefix(installed)?;
        let Some(owner) = owner(name, layout.libraries) else {
            bail!(
                "no package has the installed file {}: see xtask/src/package/list.rs",
                name.display()
            );
        };
        if owner.name == package.name {
            tree::copy(&file, &to.join(name))?;
            is_empty = false;
        }
    }
    if is_empty {
        bail!("the package {} has no file", package.name);
    }
    Ok(())
}

/// Removes debug information from the static libraries in a folder, and symbols from the shared
/// ones.
fn strip(architecture: Architecture, folder: &Path) -> Result<()> {
    for file in files_below(folder)?.into_iter().filter(|file| !file.is_symlink()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let option = if name.ends_with(".a") {
            "--strip-debug"
        } else if name.contains(".so") {
            "--strip-unneeded"
        } else {
            continue;
        };
        let mut strip = Command::new(format!("{}-strip", architecture.triplet()));
        process::run_quietly(strip.args(["--enable-deterministic-archives", option]).arg(file))?;
    }
    Ok(())
}

/// Writes the SHA-256 sums of the packages in a folder.
fn sum(folder: &Path) -> Result<()> {
    let mut sha256sum = Command::new("sha256sum");
    let sums = process::printed(sha256sum.args(packages_in(folder)?).current_dir(folder))?;
    tree::write(&folder.join("SHA256SUMS"), &sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_beside_the_packages_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let others = [
            "nvidia-driver_550_amd64.deb",
            "longshore-extras_1.0_all.deb",
            "liblongshore-plugin-acme_1.0_amd64.deb",
            "longshore_0.1.0_amd64.changes",
            "archive/longshore_0.0.9_amd64.deb",
        ];
        let ours = ["longshore_0.1.0-1_amd64.deb", "liblongshore-dev-0.1.0-1.x86_64.rpm"];
        for name in others.iter().chain(&ours) {
            tree::write(&file(name), "").unwrap();
        }
        prepare(folder.path()).unwrap();
        assert!(others.iter().all(|name| file(name).is_file()));
        assert!(!ours.iter().any(|name| file(name).is_file()));
    }
}
