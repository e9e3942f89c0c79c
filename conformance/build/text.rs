//! Text images, which are their own sources.

use crate::images::{Image, place, sources};
use crate::read;
use std::fs;
use std::path::{Path, PathBuf};

/// Appends the required checksum to images of the sample plugin.
pub(crate) fn with_checksums(folder: &Path, out: &Path) -> Vec<Image> {
    let with_checksum = |source: &Path| {
        let text = read(source);
        let hash = fnv1a(text.as_bytes());
        written("ops", place(out, source, "ops"), &format!("{text}checksum {hash:016x}\n"))
    };
    sources(folder, "ops").iter().map(|source| with_checksum(source)).collect()
}

/// Expands `#include` in WGSL sources; the language has no such directive.
pub(crate) fn wgsl(folder: &Path, out: &Path) -> Vec<Image> {
    let expanded = |source: &Path| written("wgsl", place(out, source, "wgsl"), &complete(source));
    sources(folder, "wgsl").iter().map(|source| expanded(source)).collect()
}

/// Returns a source with its included files inserted.
fn complete(source: &Path) -> String {
    let expanded = |line: &str| match included(line) {
        Some(file) => complete(&source.with_file_name(file)),
        None => format!("{line}\n"),
    };
    read(source).lines().map(expanded).collect()
}

/// Returns the file that a line includes.
pub(crate) fn included(line: &str) -> Option<&str> {
    line.strip_prefix("#include \"")?.strip_suffix('"')
}

fn written(format: &'static str, file: PathBuf, text: &str) -> Image {
    fs::write(&file, text).expect("OUT_DIR is writable");
    Image::new(format, file, Vec::new())
}

/// Returns the FNV-1a hash, with 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
