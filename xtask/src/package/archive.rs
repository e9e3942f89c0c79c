//! Archives for other systems, by `tar` and `zstd`. The archives of all packages unpack into one
//! folder, which can be moved.

use super::tree;
use super::{Compression, Parts};
use crate::{process, root};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes the archive of the files in `files`. Adds licences to `files`.
///
/// # Errors
/// Files that cannot be written; `tar` that fails.
pub(super) fn write(parts: &Parts<'_>, files: &Path) -> Result<PathBuf> {
    let Parts { package, options, architecture, licences } = parts;
    let (name, version) = (package.name, &options.version.upstream);
    let root_folder = format!("longshore-{version}");
    let documentation = files.join(&root_folder).join("share/doc").join(name);
    tree::write(&documentation.join("licences-of-crates"), licences)?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree::write(&documentation.join(licence), &std::fs::read_to_string(root().join(licence))?)?;
    }
    let file = options.output.join(format!("{name}-{version}-{}.tar.zst", architecture.rust()));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--numeric-owner"]);
    tar.args(["--owner=0", "--group=0", "--mode=u+rwX,go+rX,go-w"]);
    tar.arg(format!("--mtime=@{}", options.version.time));
    tar.arg(match options.compression {
        Compression::Best => "--use-compress-program=zstd -19 -T1",
        Compression::Fast => "--use-compress-program=zstd -1 -T1",
    });
    tar.arg("--file").arg(&file).arg("--directory").arg(files);
    process::run_quietly(tar.arg(root_folder))?;
    Ok(file)
}
