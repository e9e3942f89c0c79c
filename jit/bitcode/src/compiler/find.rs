//! The choice of the compiler: programs of one LLVM, by their names and their reported versions.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use longshore_jitlink::{Error, Result};

use super::pipeline::{Stage, run};
use super::{Compiler, Input, Limits};

/// Oldest LLVM whose programs have all needed options.
const OLDEST: u32 = 14;

/// Returns the newest pair of programs in these folders.
pub(super) fn find(path: &OsStr) -> Result<Compiler> {
    let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    let (clang, extract) = (versions(&folders, "clang"), versions(&folders, "llvm-extract"));
    let both = |version: &&u32| extract.contains_key(*version);
    if let Some(version) = clang.keys().filter(both).max() {
        return Ok(Compiler::with_tools(
            clang[version].clone(),
            extract[version].clone(),
            *version,
        ));
    }
    let plain = |name: &str| {
        folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file())
    };
    match (plain("clang"), plain("llvm-extract")) {
        (Some(clang), Some(extract)) => ask(clang, extract),
        _ => Err(Error::Open {
            path: "clang and llvm-extract".to_owned(),
            problem: format!(
                "expected both in one version, {OLDEST} or later, in {}: install them \
                 (on Debian and Ubuntu the packages clang and llvm)",
                path.display()
            ),
        }),
    }
}

/// Creates a compiler from these programs, which it runs to get their versions.
pub(super) fn ask(clang: PathBuf, extract: PathBuf) -> Result<Compiler> {
    let (version, other) = (version(&clang)?, version(&extract)?);
    let problem = if version < OLDEST {
        format!("it is of LLVM {version}, expected {OLDEST} or later")
    } else if version != other {
        format!(
            "it is of LLVM {version}, and {} of LLVM {other}: expected the same version",
            extract.display()
        )
    } else {
        return Ok(Compiler::with_tools(clang, extract, version));
    };
    Err(Error::Open { path: clang.display().to_string(), problem })
}

/// Returns another program of the same LLVM: from the same folder, with the same suffix.
pub(super) fn sibling(extract: &Path, name: &str) -> PathBuf {
    let file = extract.file_name().unwrap_or_default().to_string_lossy();
    extract
        .with_file_name(format!("{name}{}", file.strip_prefix("llvm-extract").unwrap_or_default()))
}

/// Returns the programs with this name and a version as suffix, from [`OLDEST`] on: for each
/// version the first in these folders.
fn versions(folders: &[PathBuf], name: &str) -> HashMap<u32, PathBuf> {
    let mut found = HashMap::new();
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    for entry in entries.flatten() {
        let file = entry.file_name();
        let version = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('-'));
        let version = version.and_then(|version| version.parse().ok());
        if let Some(version) = version.filter(|version| *version >= OLDEST) {
            found.entry(version).or_insert_with(|| entry.path());
        }
    }
    found
}

/// Returns the version that a program reports.
fn version(program: &Path) -> Result<u32> {
    let fail = |problem| Error::Open { path: program.display().to_string(), problem };
    let stage = Stage { program: program.to_owned(), arguments: vec![OsString::from("--version")] };
    let limits = Limits { output: 64 << 10, ..Limits::default() };
    let nothing = Input::new(&[]).and_then(|input| input.reader()).map_err(fail)?;
    let said = run(vec![stage], nothing, limits).map_err(fail)?;
    let said = String::from_utf8_lossy(&said);
    let number =
        said.split("version ").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
    let first = said.lines().next().unwrap_or_default();
    number.ok_or_else(|| fail(format!("it reports {first:?}, expected a version of LLVM")))
}
