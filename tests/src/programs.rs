//! Programs by other authors, and two that show the demands of C++ and Rust on a linker. They are
//! relocatable objects, input for the in-memory linker and the benchmarks.
//!
//! The sources come from package registries, by the ordinary clients, into `target/programs`;
//! versions are pinned and contents are checked by hash ([`sources`]). Objects are compiled once
//! for each [`Compiler`] and kept there too. A [`Subject`] is a program with its [`Case`]s, and
//! [`Linker::run`] runs one, linked in memory or by the system's linker.
//!
//! All functions block; they may be called from several threads and processes at a time.

pub mod cases;
pub mod compile;
pub mod linker;
pub mod sources;

pub use cases::{Case, Output, Step};
pub use compile::{Compiler, Position, Unit, objects};
pub use linker::{Linker, Outcome};
pub use sources::Unavailable;

use compile::files_with;
use std::path::{Path, PathBuf};

/// The inputs of a link: objects in the order of the command line, then archives, then shared
/// libraries by their `DT_SONAME`.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Relocatable objects.
    pub objects: Vec<PathBuf>,
    /// Static archives, of which only the needed members are linked.
    pub archives: Vec<PathBuf>,
    /// Shared libraries, beside the C library.
    pub libraries: Vec<&'static str>,
    /// Whether the objects can be linked at any address.
    pub position_independent: bool,
}

/// A program and its cases.
pub struct Subject {
    /// Name of the program.
    pub name: &'static str,
    /// Function that compiles the program.
    pub inputs: fn(&Compiler) -> Result<Inputs, Unavailable>,
    /// Function that returns the cases, which may need the program's sources.
    pub cases: fn() -> Result<Vec<Case>, Unavailable>,
}

/// All programs.
pub const SUBJECTS: [Subject; 9] = [
    Subject { name: "sqlite3", inputs: |c| c_inputs(c, sqlite3(c)?), cases: cases::sqlite3 },
    Subject { name: "lua", inputs: |c| c_inputs(c, lua(c)?), cases: cases::lua },
    Subject {
        name: "zlib-example",
        inputs: |c| c_inputs(c, zlib_program(c, "example")?),
        cases: cases::zlib_example,
    },
    Subject {
        name: "zlib-minigzip",
        inputs: |c| c_inputs(c, zlib_program(c, "minigzip")?),
        cases: cases::zlib_minigzip,
    },
    Subject {
        name: "zstd",
        inputs: |c| c_inputs(c, zstd_program(c, &ZSTD_COMMAND)?),
        cases: cases::zstd,
    },
    Subject {
        name: "zstd-fuzzer",
        inputs: |c| c_inputs(c, zstd_program(c, &ZSTD_FUZZER)?),
        cases: cases::zstd_fuzzer,
    },
    Subject {
        name: "zstd-zstreamtest",
        inputs: |c| c_inputs(c, zstd_program(c, &ZSTD_STREAM_TEST)?),
        cases: cases::zstd_stream_test,
    },
    Subject { name: "c++", inputs: cpp, cases: cases::cpp },
    Subject { name: "rust", inputs: rust, cases: cases::rust },
];

/// Compiles SQLite and its shell: two objects, one of them large.
pub fn sqlite3(compiler: &Compiler) -> Result<Vec<PathBuf>, Unavailable> {
    let folder = sources::sqlite3()?;
    let defines = ["FTS5", "RTREE", "MATH_FUNCTIONS", "DBSTAT_VTAB"];
    let defines = defines.map(|name| format!("-DSQLITE_ENABLE_{name}"));
    let sources = ["sqlite3.c", "shell.c"].map(|name| folder.join(name));
    objects(compiler, &Unit::new("sqlite3", sources).flags(defines))
}

/// Compiles Lua's interpreter with its library.
pub fn lua(compiler: &Compiler) -> Result<Vec<PathBuf>, Unavailable> {
    let folder = sources::lua()?;
    let others = ["ltests.c", "onelua.c"].map(|name| folder.join(name));
    let mut sources = files_with(&folder, &["c"]);
    sources.retain(|file| !others.contains(file));
    objects(compiler, &Unit::new("lua", sources).flags(["-DLUA_USE_LINUX".to_owned()]))
}

/// Compiles zlib's library.
pub fn zlib(compiler: &Compiler) -> Result<Vec<PathBuf>, Unavailable> {
    let folder = sources::zlib()?;
    objects(compiler, &zlib_unit("zlib", &folder, files_with(&folder, &["c"])))
}

/// Compiles zstd's library, with threads.
pub fn zstd(compiler: &Compiler) -> Result<Vec<PathBuf>, Unavailable> {
    let folder = sources::zstd()?;
    let parts = ["common", "compress", "decompress", "dictBuilder"];
    let sources =
        parts.iter().flat_map(|part| files_with(&folder.join("lib").join(part), &["c", "S"]));
    objects(compiler, &zstd_unit("zstd-library", &folder, sources))
}

const ZSTD_COMMAND: [&str; 10] = [
    "programs/zstdcli.c",
    "programs/benchfn.c",
    "programs/benchzstd.c",
    "programs/datagen.c",
    "programs/dibio.c",
    "programs/fileio.c",
    "programs/fileio_asyncio.c",
    "programs/timefn.c",
    "programs/util.c",
    "programs/zstdcli_trace.c",
];
const ZSTD_FUZZER: [&str; 4] =
    ["tests/fuzzer.c", "programs/util.c", "programs/timefn.c", "programs/datagen.c"];
const ZSTD_STREAM_TEST: [&str; 6] = [
    "tests/zstreamtest.c",
    "tests/seqgen.c",
    "tests/external_matchfinder.c",
    "programs/util.c",
    "programs/timefn.c",
    "programs/datagen.c",
];

fn zstd_program(compiler: &Compiler, files: &[&str]) -> Result<Vec<PathBuf>, Unavailable> {
    let folder = sources::zstd()?;
    let sources = files.iter().map(|file| folder.join(file));
    let mut all = objects(compiler, &zstd_unit("zstd-program", &folder, sources))?;
    all.extend(zstd(compiler)?);
    Ok(all)
}

fn zstd_unit(
    name: &'static str,
    folder: &Path,
    sources: impl IntoIterator<Item = PathBuf>,
) -> Unit {
    let parts = ["lib", "lib/common", "lib/compress", "lib/dictBuilder", "programs"];
    let include = parts.map(|part| format!("-I{}", folder.join(part).display()));
    let defines = ["-DZSTD_MULTITHREAD", "-DXXH_NAMESPACE=ZSTD_", "-DZSTD_LEGACY_SUPPORT=0"];
    let defines = defines.map(str::to_owned);
    Unit::new(name, sources).flags(include.into_iter().chain(defines))
}

fn zlib_program(compiler: &Compiler, name: &str) -> Result<Vec<PathBuf>, Unavailable> {
    let folder = sources::zlib()?;
    let source = folder.join("test").join(name).with_extension("c");
    let mut all = objects(compiler, &zlib_unit("zlib-program", &folder, [source]))?;
    all.extend(zlib(compiler)?);
    Ok(all)
}

fn zlib_unit(
    name: &'static str,
    folder: &Path,
    sources: impl IntoIterator<Item = PathBuf>,
) -> Unit {
    let flags = [format!("-I{}", folder.display()), "-DHAVE_UNISTD_H".to_owned()];
    Unit::new(name, sources).flags(flags.into_iter().chain(["-DHAVE_HIDDEN".to_owned()]))
}

/// Returns the inputs of a program in C, which may use the library of mathematics.
fn c_inputs(compiler: &Compiler, objects: Vec<PathBuf>) -> Result<Inputs, Unavailable> {
    let position_independent = compiler.position != Position::Fixed;
    Ok(Inputs { objects, archives: Vec::new(), libraries: vec!["libm.so.6"], position_independent })
}

fn cpp(compiler: &Compiler) -> Result<Inputs, Unavailable> {
    let sources = ["main.cc", "parts.cc"].map(|name| fixture("cpp").join(name));
    let unit = Unit::new("c++", sources).flags(["-std=c++17".to_owned(), "-pthread".to_owned()]);
    let libraries = vec!["libstdc++.so.6", "libm.so.6", "libgcc_s.so.1"];
    Ok(Inputs { libraries, ..c_inputs(compiler, objects(compiler, &unit)?)? })
}

fn rust(compiler: &Compiler) -> Result<Inputs, Unavailable> {
    let folder = fixture("rust");
    let main = objects(compiler, &Unit::new("rust", [folder.join("main.c")]))?;
    let archives = vec![compile::rust_archive(&folder.join("lib.rs"), compiler)?];
    let libraries = vec!["libm.so.6", "libgcc_s.so.1"];
    Ok(Inputs { archives, libraries, ..c_inputs(compiler, main)? })
}

/// Returns a folder in `tests/fixtures/programs`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs").join(name)
}

/// Returns the folder for downloads and objects.
fn folder() -> PathBuf {
    crate::world::root().join("target/programs")
}
