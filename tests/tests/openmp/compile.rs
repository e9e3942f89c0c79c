//! Compilation of the test programs. Compiled programs are kept under the hash of everything that
//! goes into them, in the target folder.

use super::programs::{Part, Program};
use libtest_mimic::Failed;
use longshore_tests::world::root;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::openmp_libraries;

/// A version of clang with options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Compiler {
    pub(crate) version: u32,
    pub(crate) options: &'static [&'static str],
}

/// A compiled program, and its argument.
pub(crate) struct Compiled {
    pub(crate) program: PathBuf,
    pub(crate) argument: Option<PathBuf>,
}

/// A compiled program that is kept under its name and a hash.
pub(crate) struct Kept {
    name: String,
    /// Hash of everything that goes into the program.
    pub(crate) hasher: DefaultHasher,
}

/// Flags of all programs. A directive that is ignored in part, and an unknown function are errors.
const FLAGS: [&str; 6] = [
    "-Wno-everything",
    "-Werror=extra-tokens",
    "-Werror=implicit-function-declaration",
    "-fopenmp",
    "-fopenmp-targets=x86_64-pc-linux-gnu",
    "-pthread",
];

impl fmt::Display for Compiler {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "clang-{} {}", self.version, self.options.join(" "))
    }
}

impl Compiler {
    /// Returns the missing requirement of the compiler, if any.
    pub(crate) fn missing(&self) -> Option<String> {
        if !openmp_libraries::are_installed() {
            return Some("LLVM's OpenMP libraries are not installed".to_owned());
        }
        let tools = match self.version {
            14 => "clang-offload-wrapper-14".to_owned(),
            version => format!("clang-linker-wrapper-{version}"),
        };
        [format!("clang-{}", self.version), tools].into_iter().find_map(|tool| {
            let starts = Command::new(&tool).arg("--version").output().is_ok();
            (!starts).then(|| format!("not installed: {tool}"))
        })
    }

    /// Returns a compiled program, with its shared object if it has one. A failure is the
    /// compiler's output.
    pub(crate) fn compile(&self, program: &Program) -> Result<Compiled, Failed> {
        let sources: Vec<_> = match program.part {
            Part::Unit(unit) => vec![program.file, unit],
            Part::Object(_) | Part::None => vec![program.file],
        };
        let argument = match program.part {
            Part::Object(object) => {
                let flags = [program.flags, &["-fPIC", "-shared"]].concat();
                Some(self.file(&[object], &flags)?)
            }
            Part::Unit(_) | Part::None => None,
        };
        Ok(Compiled { program: self.file(&sources, program.flags)?, argument })
    }

    /// Compiles sources to an executable or a shared object, unless one of the same contents is
    /// there.
    fn file(&self, sources: &[&str], flags: &[&str]) -> Result<PathBuf, Failed> {
        let name = sources.first().ok_or("there is a source")?.replace('.', "_");
        let mut kept = Kept::new(format!("{name}.{}", self.version));
        (self, flags, FLAGS).hash(&mut kept.hasher);
        for name in sources.iter().chain(&["regions.h"]) {
            std::fs::read(source(name))?.hash(&mut kept.hasher);
        }
        kept.program(|_| self.command(sources, flags))
    }

    fn command(&self, sources: &[&str], flags: &[&str]) -> Command {
        let is_cpp = sources.iter().any(|file| file.ends_with(".cpp"));
        let (name, standard) =
            if is_cpp { ("clang++", "-std=c++17") } else { ("clang", "-std=gnu11") };
        let mut command = Command::new(format!("{name}-{}", self.version));
        command.arg(standard).args(self.options).args(FLAGS).args(flags);
        command.arg("-isystem").arg(openmp_libraries::headers(self.version));
        command.args(sources.iter().map(|name| source(name)));
        for folder in [openmp_libraries::runtime(), libraries(self.version)] {
            command.arg("-L").arg(folder);
        }
        command.args(["-lm", "-ldl"]);
        command
    }
}

impl Kept {
    pub(crate) fn new(name: String) -> Kept {
        Kept { name, hasher: DefaultHasher::new() }
    }

    /// Returns the program. Unless it is there, the command compiles it, which gets an empty folder
    /// for other files. A failure is the compiler's output.
    pub(crate) fn program(self, command: impl FnOnce(&Path) -> Command) -> Result<PathBuf, Failed> {
        let folder = root().join("target/openmp/programs");
        let made = folder.join(format!("{}.{:016x}", self.name, self.hasher.finish()));
        if made.exists() {
            return Ok(made);
        }
        std::fs::create_dir_all(&folder)?;
        // Other processes may compile the program at the same time.
        let unfinished = tempfile::tempdir_in(&folder)?;
        let output = unfinished.path().join("program");
        let mut command = command(unfinished.path());
        let printed = command.arg("-o").arg(&output).output()?;
        if !printed.status.success() {
            let text = String::from_utf8_lossy(&printed.stderr);
            return Err(format!("{command:?}: {}\n{text}", printed.status).into());
        }
        std::fs::rename(output, &made)?;
        Ok(made)
    }
}

/// Returns the folder with the libraries of a version.
pub(crate) fn libraries(version: u32) -> PathBuf {
    openmp_libraries::target_libraries(version)
}

/// Returns a source file.
fn source(name: &str) -> PathBuf {
    Path::new(&root()).join("tests/fixtures/openmp").join(name)
}
