//! Compilers, and objects that are compiled once for each compiler.

use super::folder;
use super::sources::{Unavailable, locked, run};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A compiler of C and C++ with flags.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Compiler {
    /// Family of the compiler.
    pub family: Family,
    /// Level such as `-O2`.
    pub optimization: &'static str,
    /// Permitted positions of the code.
    pub position: Position,
    /// Further flags, such as `-mcmodel=large`.
    pub flags: &'static [&'static str],
}

/// A compiler without flags.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Family {
    /// `gcc` and `g++`.
    Gcc,
    /// `clang-N` and `clang++-N`.
    Clang(u32),
}

/// The permitted positions of compiled code.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Position {
    /// Only the address for which the code is linked (`-fno-pic`).
    Fixed,
    /// Any address, even in a shared library (`-fPIC`).
    Independent,
    /// Any address, in an executable (`-fPIE`).
    Executable,
}

impl Compiler {
    /// Returns whether the compiler can be started.
    pub fn is_installed(&self) -> bool {
        let mut version = Command::new(self.program(Language::Cpp));
        version.arg("--version").output().is_ok_and(|output| output.status.success())
    }

    fn program(&self, language: Language) -> String {
        match (self.family, language) {
            (Family::Gcc, Language::C) => "gcc".to_owned(),
            (Family::Gcc, Language::Cpp) => "g++".to_owned(),
            (Family::Clang(version), Language::C) => format!("clang-{version}"),
            (Family::Clang(version), Language::Cpp) => format!("clang++-{version}"),
        }
    }

    fn position_flag(&self) -> &'static str {
        match self.position {
            Position::Fixed => "-fno-pic",
            Position::Independent => "-fPIC",
            Position::Executable => "-fPIE",
        }
    }
}

/// Writes the compiler and its flags, as on the command line.
impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program(Language::C), self.optimization)?;
        write!(f, " {}", self.position_flag())?;
        self.flags.iter().try_for_each(|flag| write!(f, " {flag}"))
    }
}

/// Sources that are compiled with the same flags.
pub struct Unit {
    name: &'static str,
    sources: Vec<PathBuf>,
    flags: Vec<String>,
}

impl Unit {
    /// Creates a unit of sources without flags of their own. `name` is the folder for the objects.
    pub fn new(name: &'static str, sources: impl IntoIterator<Item = PathBuf>) -> Unit {
        Unit { name, sources: sources.into_iter().collect(), flags: Vec::new() }
    }

    /// Adds flags that the sources need.
    pub fn flags(mut self, flags: impl IntoIterator<Item = String>) -> Unit {
        self.flags.extend(flags);
        self
    }
}

/// Returns the objects of a unit, in the order of its sources. Missing objects are compiled, on as
/// many threads as there are processors.
pub fn objects(compiler: &Compiler, unit: &Unit) -> Result<Vec<PathBuf>, Unavailable> {
    let base = folder().join("objects").join(unit.name);
    let mut places = Vec::new();
    for source in &unit.sources {
        let key = key_of(&(compiler, &unit.flags, folder_key(source)?, source));
        let name = source.file_stem().expect("a source has a name").display();
        places.push(base.join(format!("{name}-{key:016x}.o")));
    }
    locked(&base.join(format!("{:016x}.lock", key_of(&(compiler, &unit.flags)))), || {
        let missing = unit.sources.iter().zip(&places).filter(|(_, object)| !object.is_file());
        in_parallel(missing.collect(), |(source, object)| {
            compile_one(compiler, &unit.flags, source, object)
        })
    })?;
    Ok(places)
}

/// Returns a static archive that `rustc` makes of a crate and the standard library.
pub(super) fn rust_archive(source: &Path, compiler: &Compiler) -> Result<PathBuf, Unavailable> {
    let base = folder().join("objects/rust");
    let key = key_of(&(compiler.optimization, compiler.position, folder_key(source)?));
    let archive = base.join(format!("lib-{key:016x}.a"));
    locked(&base.join(format!("{key:016x}.lock")), || {
        if archive.is_file() {
            return Ok(());
        }
        let model = match compiler.position {
            Position::Fixed => "static",
            Position::Independent => "pic",
            Position::Executable => "pie",
        };
        let level = compiler.optimization.trim_start_matches("-O");
        let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
        let mut rustc = Command::new(rustc);
        rustc.args(["--edition", "2024", "--crate-type", "staticlib", "--crate-name", "part"]);
        rustc.arg(format!("-Copt-level={level}")).arg(format!("-Crelocation-model={model}"));
        complete(&archive, |partial| run(rustc.arg(source).arg("-o").arg(partial)))
    })?;
    Ok(archive)
}

/// Returns the files of a folder with one of these extensions, sorted.
pub(super) fn files_with(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = |file: &PathBuf| {
        let extension = file.extension().and_then(OsStr::to_str);
        extension.is_some_and(|extension| extensions.contains(&extension))
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(wanted).collect();
    files.sort();
    files
}

/// Makes a file under a temporary name, and renames the complete file.
pub(super) fn complete(
    file: &Path,
    make: impl FnOnce(&Path) -> Result<(), Unavailable>,
) -> Result<(), Unavailable> {
    let partial = file.with_extension("partial");
    make(&partial)?;
    Ok(fs::rename(partial, file)?)
}

/// Returns a hash that distinguishes cached files.
pub(super) fn key_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone, Copy)]
enum Language {
    C,
    Cpp,
}

fn compile_one(
    compiler: &Compiler,
    flags: &[String],
    source: &Path,
    object: &Path,
) -> Result<(), Unavailable> {
    let is_cpp = source.extension() == Some(OsStr::new("cc"));
    let language = if is_cpp { Language::Cpp } else { Language::C };
    let mut command = Command::new(compiler.program(language));
    command.args([compiler.optimization, compiler.position_flag(), "-w"]);
    command.args(compiler.flags).args(flags);
    complete(object, |partial| run(command.arg("-c").arg(source).arg("-o").arg(partial)))
}

/// Returns a hash of the contents of a source and of all files beside it, which include its
/// headers.
fn folder_key(source: &Path) -> Result<u64, Unavailable> {
    let folder = source.parent().expect("a source lies in a folder");
    let mut contents = Vec::new();
    for file in files_with(folder, &["c", "h", "S", "cc", "rs"]) {
        contents.push(fs::read(file)?);
    }
    Ok(key_of(&contents))
}

/// Runs the tasks on as many threads as there are processors, up to the first failure.
fn in_parallel<T: Send>(
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<(), Unavailable> + Sync,
) -> Result<(), Unavailable> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(tasks.len());
    let tasks = Mutex::new(tasks);
    let next = || tasks.lock().expect("no thread panics while it holds it").pop();
    let all = || std::iter::from_fn(next).try_for_each(&work);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(all)).collect();
        let results = workers.into_iter().map(|worker| worker.join().expect("no panics"));
        results.collect()
    })
}
