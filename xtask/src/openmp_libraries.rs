//! LLVM's OpenMP libraries of several versions, which conflict as installed packages: headers,
//! `libomptarget.so` of each version, and one `libomp.so.5` for all.

use crate::{process, root};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// The Debian packages, in the order of unpacking. The link `libomp.so.5` of the last one stays.
const PACKAGES: [&str; 8] = [
    "libomp-14-dev",
    "libomp-16-dev",
    "libomp5-16",
    "libomp-22-dev",
    "liboffload-22",
    "liboffload-22-dev",
    "libomp-19-dev",
    "libomp5-19",
];

/// The folder of `libomp.so.5` alone, below [`folder`].
const RUNTIME: &str = "runtime";

/// Returns the folder with the unpacked packages.
pub fn folder() -> PathBuf {
    root().join("target/openmp/libraries")
}

/// Returns the folder with `libomp.so` and `libomp.so.5` of LLVM 19, without a `libomptarget.so`.
pub fn runtime() -> PathBuf {
    folder().join(RUNTIME)
}

/// Returns the folder with `libomptarget.so` of a version of LLVM.
pub fn target_libraries(version: u32) -> PathBuf {
    folder().join(format!("usr/lib/llvm-{version}/lib"))
}

/// Returns the folder with `omp.h` of a version of LLVM.
pub fn headers(version: u32) -> PathBuf {
    let full = if version == 14 { "14.0.6".to_owned() } else { version.to_string() };
    target_libraries(version).join("clang").join(full).join("include")
}

/// Returns whether the libraries are unpacked.
pub fn are_installed() -> bool {
    runtime().is_dir()
}

/// Downloads and unpacks the packages, without installing them.
pub(crate) fn install() -> Result<()> {
    // A partial download lies in a different folder.
    let unpacked = root().join("target/openmp/download");
    if unpacked.exists() {
        std::fs::remove_dir_all(&unpacked)?;
    }
    std::fs::create_dir_all(&unpacked)?;
    process::run_quietly(Command::new("apt-get").args(["--quiet", "update"]))?;
    let mut download = Command::new("apt-get");
    download.args(["--quiet", "download"]).args(PACKAGES).current_dir(&unpacked);
    process::run_quietly(&mut download)?;
    let script = "for package; do dpkg-deb --extract ${package}_*.deb .; done; rm *.deb
        mkdir $0; ln -s ../usr/lib/llvm-19/lib/libomp.so.5 $0; ln -s libomp.so.5 $0/libomp.so";
    let mut unpack = Command::new("sh");
    unpack.args(["-e", "-c", script, RUNTIME]).args(PACKAGES).current_dir(&unpacked);
    process::run(&mut unpack)?;
    Ok(std::fs::rename(unpacked, folder())?)
}
