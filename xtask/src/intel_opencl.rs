//! Intel's OpenCL runtime for CPUs, a peer in the benchmark of kernels.

use crate::{process, root};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// The Python packages of the runtime, and of the libraries it loads from its own folder.
const PACKAGES: [&str; 3] = ["intel-opencl-rt", "intel-cmplr-lib-rt", "tbb"];
/// Places of the library in the folder: pip's, and that of Debian's pip.
const PLACES: [&str; 2] = ["lib/libintelocl.so", "local/lib/libintelocl.so"];

/// Returns the driver's library; `None` if the runtime is not installed.
pub fn library() -> Option<PathBuf> {
    PLACES.iter().map(|place| folder().join(place)).find(|library| library.is_file())
}

/// Installs the runtime from its Python packages, into the target folder.
pub(crate) fn install() -> Result<()> {
    // A partial download lies in a different folder.
    let unpacked = root().join("target/intel-opencl-download");
    for old in [&unpacked, &folder()] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", "--prefix"]);
    process::run_quietly(pip.arg(&unpacked).args(PACKAGES))?;
    Ok(std::fs::rename(unpacked, folder())?)
}

fn folder() -> PathBuf {
    root().join("target/intel-opencl")
}
