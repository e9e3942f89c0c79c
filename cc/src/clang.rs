//! The choice of a clang, and the tools that belong to it.

use crate::failure::{Exit, Failure};
use crate::path;
use crate::source::Language;
use crate::target::Target;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// The oldest supported major version.
const OLDEST: u32 = 14;

/// An installed compiler.
#[derive(Debug)]
pub(crate) struct Clang {
    pub(crate) path: PathBuf,
    pub(crate) major: u32,
    /// The full version, such as "19.1.7".
    version: String,
    /// Names of the compiler's backends, as `--print-targets` prints them.
    backends: Vec<String>,
}

impl Clang {
    /// Runs a program, checks that it is clang, and reads its version and backends.
    fn open(path: &Path) -> Result<Clang, String> {
        let printed = output(path, "--version")?;
        let version = version(&printed).ok_or_else(|| {
            let line = printed.lines().next().unwrap_or_default();
            format!("'{}' is not clang: its --version prints '{line}'", path.display())
        })?;
        let major = major(version);
        if major < OLDEST {
            let shown = path.display();
            return Err(format!("'{shown}' is clang {version}, expected {OLDEST} or later"));
        }
        let targets = output(path, "--print-targets")?;
        let backends = targets.lines().filter_map(|line| line.trim().split_once(" - "));
        let backends = backends.map(|(name, _)| name.trim().to_owned()).collect();
        Ok(Clang { path: path.to_owned(), major, version: version.to_owned(), backends })
    }

    fn supports(&self, target: &Target) -> bool {
        let backend = target.backend();
        backend.is_none_or(|name| self.backends.iter().any(|backend| backend == name))
    }

    /// Returns the language in which the compiler takes kernels for a target.
    pub(crate) fn dialect(&self, target: &Target, language: Language) -> Dialect {
        let has_kernels = language.has_kernels();
        match target {
            Target::Cpu(..) if language == Language::Cuda => Dialect::Cuda,
            Target::Cpu(..) if language == Language::Hip => Dialect::Hip,
            Target::Nvptx(_) if has_kernels || self.major < 17 => Dialect::Cuda,
            Target::Amdgcn(_) if has_kernels || self.major < 16 => Dialect::Hip,
            _ => Dialect::Plain,
        }
    }

    /// Returns the linker beside the compiler, else the linker of its version, else `ld.lld` on
    /// PATH, else one of the next later version.
    pub(crate) fn lld(&self) -> Result<PathBuf, Failure> {
        let own = self.beside("ld.lld");
        let own = own.or_else(|| path::find(&format!("ld.lld-{}", self.major)));
        let other = || path::find("ld.lld").or_else(|| self.later("ld.lld"));
        own.or_else(other).ok_or_else(|| self.missing("the linker ld.lld", "lld"))
    }

    /// Returns the folder with the compiler's libraries, if it is known.
    pub(crate) fn libraries(&self) -> Option<PathBuf> {
        let real = std::fs::canonicalize(&self.path).ok();
        real.and_then(|real| Some(real.parent()?.parent()?.join("lib")))
    }

    /// Returns the linker of bitcode, which must have the compiler's version.
    pub(crate) fn llvm_link(&self) -> Result<PathBuf, Failure> {
        let own = self.beside("llvm-link");
        let own = own.or_else(|| path::find(&format!("llvm-link-{}", self.major)));
        own.ok_or_else(|| self.missing("llvm-link, which joins sources for a GPU,", "llvm"))
    }

    /// Returns a tool in the compiler's folder, after resolving symbolic links to the compiler.
    fn beside(&self, tool: &str) -> Option<PathBuf> {
        let real = std::fs::canonicalize(&self.path).ok()?;
        let file = real.with_file_name(tool);
        file.is_file().then_some(file)
    }

    /// Returns a tool of the next later version.
    fn later(&self, tool: &str) -> Option<PathBuf> {
        let mut tools = numbered(tool);
        tools.retain(|(major, _)| *major > self.major);
        tools.into_iter().min().map(|(_, path)| path)
    }

    fn missing(&self, what: &str, package: &str) -> Failure {
        let (clang, major) = (self.path.display(), self.major);
        let message = format!("{what} is neither beside '{clang}' nor on PATH");
        Failure::new(Exit::NothingFound, message)
            .or_hint(format!("install it; on Debian and Ubuntu: apt install {package}-{major}"))
    }
}

/// The language in which a compiler takes a source, for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// C or C++, as the source is written.
    Plain,
    /// CUDA C++: for its own sources, and the only dialect with kernels for NVIDIA before clang 17.
    Cuda,
    /// HIP: for its own sources, and the only dialect with kernels for AMD before clang 16.
    Hip,
}

/// The compilers to choose from, in order of preference.
pub(crate) struct Compilers {
    is_given: bool,
    /// Paths of unopened compilers, the preferred one last.
    candidates: Vec<PathBuf>,
    opened: Vec<Arc<Clang>>,
    /// Reasons against the rejected candidates.
    refused: Vec<String>,
}

impl Compilers {
    /// Creates the list: the given compiler, or all on PATH, `clang` and `clang-NN`, the newest
    /// first.
    pub(crate) fn new(given: Option<PathBuf>) -> Compilers {
        let is_given = given.is_some();
        let candidates = given.map_or_else(candidates, |path| vec![on_path(path)]);
        Compilers { is_given, candidates, opened: Vec::new(), refused: Vec::new() }
    }

    /// Returns the first compiler with a backend for a target.
    pub(crate) fn choose(&mut self, target: &Target) -> Result<Arc<Clang>, Failure> {
        let opened = self.opened.iter().find(|clang| clang.supports(target));
        if let Some(clang) = opened {
            return Ok(Arc::clone(clang));
        }
        while let Some(path) = self.candidates.pop() {
            match Clang::open(&path) {
                Ok(clang) => self.opened.push(Arc::new(clang)),
                Err(why) => self.refused.push(why),
            }
            if let Some(clang) = self.opened.last().filter(|clang| clang.supports(target)) {
                return Ok(Arc::clone(clang));
            }
        }
        Err(self.none(target))
    }

    fn none(&self, target: &Target) -> Failure {
        let lacking = self.opened.iter().map(|clang| {
            let backend = target.backend().unwrap_or_default();
            format!(
                "'{}' (clang {}) lacks the backend '{backend}'",
                clang.path.display(),
                clang.version
            )
        });
        let why: Vec<_> = self.refused.iter().cloned().chain(lacking).collect();
        let message = match why.is_empty() {
            true => "no clang is on PATH".to_owned(),
            false => format!("no clang compiles for {target}: {}", why.join("; ")),
        };
        let failure = Failure::new(Exit::NothingFound, message);
        match self.is_given {
            true => failure.or_hint(
                "leave out --clang (with_clang in a build script) and LONGSHORE_CLANG to use a \
                 clang on PATH",
            ),
            false => failure.or_hint(
                "install clang and lld, version 14 or later (on Debian and Ubuntu: apt install \
                 clang lld), or name a compiler with --clang (with_clang in a build script) or \
                 LONGSHORE_CLANG",
            ),
        }
    }
}

/// Looks up a program on PATH if its name has no folder.
fn on_path(program: PathBuf) -> PathBuf {
    let name = program.to_str().filter(|name| !name.contains('/'));
    name.and_then(path::find).unwrap_or(program)
}

/// Returns `clang` and `clang-NN` on PATH, the newest last; among equal versions `clang` is the
/// last.
fn candidates() -> Vec<PathBuf> {
    let mut found = numbered("clang");
    if let Some(path) = path::find("clang") {
        let printed = output(&path, "--version").unwrap_or_default();
        found.push((version(&printed).map_or(0, major), path));
    }
    found.sort_by_key(|(major, _)| *major);
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the programs `NAME-NN` on PATH with their numbers, for each number the first on PATH.
fn numbered(name: &str) -> Vec<(u32, PathBuf)> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in path::folders().iter().flat_map(std::fs::read_dir).flatten().flatten() {
        let file = entry.file_name();
        let number = file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('-'));
        let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };
        if entry.path().is_file() && found.iter().all(|(known, _)| *known != number) {
            found.push((number, entry.path()));
        }
    }
    found
}

/// Runs a program with one option, and returns its standard output.
fn output(program: &Path, option: &str) -> Result<String, String> {
    let shown = program.display();
    let output = Command::new(program).arg(option).output();
    let output = output.map_err(|error| format!("'{shown}' cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("'{shown} {option}' failed: {}", output.status)),
    }
}

/// Returns "19.1.7" for "Debian clang version 19.1.7 (3~deb12u1)".
fn version(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("clang version ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|version| !version.is_empty())
}

/// Returns 19 for "19.1.7".
fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_compilers_say() {
        assert_eq!(version("Debian clang version 19.1.7 (3~deb12u1)\nTarget: x"), Some("19.1.7"));
        assert_eq!(version("clang version 23.0.0git (https://x)"), Some("23.0.0"));
        assert_eq!(version("Apple clang version 15.0.0 (clang-1500)"), Some("15.0.0"));
        assert_eq!(version("gcc (Debian 12.2.0) 12.2.0"), None);
        assert_eq!(version("clang version"), None);
    }
}
