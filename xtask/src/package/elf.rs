//! Requirements of programs and libraries, read by `readelf`.

use super::toolchain::GLIBC;
use crate::files::files_below;
use crate::process::printed;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Libraries that each system with glibc and GCC's runtime has.
const LIBRARIES: [&str; 9] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libutil.so.1",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// The requirement on the version of glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// The version [`GLIBC`] or an earlier one.
    OldGlibc,
    /// Any version.
    AnyGlibc,
}

/// Checks the ELF files in a folder and below: their libraries, and the version of glibc.
///
/// # Errors
/// A file that needs another library or a later glibc.
pub(crate) fn check(folder: &Path, requirement: Requirement) -> Result<()> {
    for file in files_below(folder)?.iter().filter(|file| !file.is_symlink()) {
        if !starts_as_elf(file)? {
            continue;
        }
        let text = printed(Command::new("readelf").args(["-W", "-d", "-V"]).arg(file))?;
        for library in needed(&text) {
            if !LIBRARIES.contains(&library) {
                bail!("{} needs {library}, which no package depends on", file.display());
            }
        }
        let latest = versions(&text).max().unwrap_or_default();
        if requirement == Requirement::OldGlibc && latest > numbers(GLIBC) {
            bail!("{} needs glibc {latest:?}, later than {GLIBC}", file.display());
        }
    }
    Ok(())
}

fn starts_as_elf(file: &Path) -> Result<bool> {
    let mut start = [0; 4];
    let mut file = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    let read = std::io::Read::read(&mut file, &mut start)?;
    Ok(read == start.len() && start == *b"\x7fELF")
}

/// Returns the libraries in the output of `readelf -d`.
fn needed(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| line.split_once('[')?.1.split_once(']').map(|(name, _)| name))
}

/// Returns the versions of glibc in the output of `readelf -V`.
fn versions(text: &str) -> impl Iterator<Item = Vec<u32>> {
    text.split("GLIBC_").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        numbers(&rest[..end])
    })
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{needed, numbers, versions};

    #[test]
    fn libraries_and_versions_are_read_from_the_output_of_readelf() {
        let text = "\
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  0x0080:   Name: GLIBC_2.9  Flags: none  Version: 7
  0x0090:   Name: GLIBC_2.28  Flags: none  Version: 6";
        assert_eq!(needed(text).collect::<Vec<_>>(), ["libgcc_s.so.1", "libc.so.6"]);
        assert_eq!(versions(text).max(), Some(numbers("2.28")));
    }
}
