//! The workloads: objects of real programs and generated ones, compiled once into the target
//! folder.

use crate::synthetic::Shape;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use longshore_tests::programs::sources;
use memmap2::Mmap;
use object::read::archive::ArchiveFile;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A workload that may be prepared.
pub(crate) struct WorkloadKind {
    /// Name of the workload.
    pub(crate) name: &'static str,
    /// Name of its folder inside the benchmark's.
    folder: &'static str,
    /// Limit for one thread in milliseconds, on the project's measurement machines.
    pub(crate) target_ms: u32,
    /// Function that creates the objects in an existing folder.
    make: fn(&Path) -> Result<Vec<PathBuf>>,
}

/// All workloads.
pub(crate) const KINDS: [WorkloadKind; 6] = [
    WorkloadKind {
        name: "SQLite",
        folder: "sqlite",
        target_ms: 5,
        make: |folder| sqlite(folder, &[]),
    },
    WorkloadKind {
        name: "SQLite, function sections",
        folder: "sqlite-sections",
        target_ms: 5,
        make: |folder| sqlite(folder, &["-ffunction-sections"]),
    },
    WorkloadKind {
        name: "10,000 functions",
        folder: "functions",
        target_ms: 10,
        make: |folder| synthetic(folder, Shape { objects: 1, functions_per_object: 10_000 }),
    },
    WorkloadKind {
        name: "100 x 1,000 functions",
        folder: "objects",
        target_ms: 150,
        make: |folder| synthetic(folder, Shape { objects: 100, functions_per_object: 1_000 }),
    },
    WorkloadKind { name: "LLVM ExecutionEngine", folder: "llvm", target_ms: 45, make: llvm },
    WorkloadKind { name: "zstd", folder: "zstd", target_ms: 3, make: zstd },
];

/// Objects that are linked together.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) target_ms: u32,
    /// Folder of the objects, and of files for the peers.
    pub(crate) folder: PathBuf,
    pub(crate) objects: Vec<PathBuf>,
}

impl WorkloadKind {
    /// Creates the objects, if they are missing.
    ///
    /// # Errors
    /// A compiler, sources or libraries that are missing.
    pub(crate) fn prepare(&self, folder: &Path) -> Result<Workload> {
        let folder = folder.join(self.folder);
        fs::create_dir_all(&folder)?;
        let mut objects = (self.make)(&folder)?;
        objects.sort();
        Ok(Workload { name: self.name, target_ms: self.target_ms, folder, objects })
    }
}

impl Workload {
    /// Returns the objects' bytes, newly mapped from the page cache, so that no page of them is in
    /// this process yet.
    ///
    /// # Errors
    /// Files that cannot be mapped.
    pub(crate) fn map(&self) -> Result<Vec<Bytes>> {
        let map = |path: &PathBuf| {
            // SAFETY: only the benchmark writes to its folder, and not during measurements.
            let map = unsafe { Mmap::map(&File::open(path)?) };
            Ok(Bytes::from_owner(map.with_context(|| path.display().to_string())?))
        };
        self.objects.iter().map(map).collect()
    }
}

/// Returns the folder of the benchmark, in the target folder that this program was built in.
///
/// # Errors
/// A folder that cannot be created.
pub(crate) fn folder() -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let target = executable.ancestors().nth(3).context("target/release/deps/<executable>")?;
    let folder = target.join("linker-bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Compiles one C or assembly file, unless the object is newer than it.
///
/// # Errors
/// A compiler that is missing or fails.
pub(crate) fn compile(source: &Path, output: &Path, flags: &[&str]) -> Result<()> {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if modified(output).is_some_and(|output| Some(output) > modified(source)) {
        return Ok(());
    }
    let compiler = program(&["clang-19", "clang", "gcc"]).context("there is no C compiler")?;
    let mut command = Command::new(compiler);
    command.args(["-fPIC", "-w"]).args(flags).arg("-o").arg(output).arg(source);
    ensure!(command.status()?.success(), "compiling {} failed", source.display());
    Ok(())
}

/// Returns the first of the programs in `PATH`.
pub(crate) fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let candidates = names.iter().flat_map(|name| folders.iter().map(move |f| f.join(name)));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// Writes a file, unless it already has that text.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn sqlite(folder: &Path, flags: &[&str]) -> Result<Vec<PathBuf>> {
    let source = sources::sqlite3()?.join("sqlite3.c");
    let object = folder.join("sqlite3.o");
    compile(
        &source,
        &object,
        &[&["-O2", "-c", "-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE"], flags].concat(),
    )?;
    Ok(vec![object])
}

fn zstd(folder: &Path) -> Result<Vec<PathBuf>> {
    let library = sources::zstd()?.join("lib");
    let mut objects = Vec::new();
    for part in ["common", "compress", "decompress", "dictBuilder"] {
        for entry in fs::read_dir(library.join(part))? {
            let source = entry?.path();
            if source.extension().is_some_and(|extension| extension == "c" || extension == "S") {
                let name = source.file_name().context("a file has a name")?;
                let object = folder.join(name).with_extension("o");
                compile(&source, &object, &["-O2", "-c"])?;
                objects.push(object);
            }
        }
    }
    Ok(objects)
}

fn synthetic(folder: &Path, shape: Shape) -> Result<Vec<PathBuf>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut objects = Vec::new();
        loop {
            let object = next.fetch_add(1, Ordering::Relaxed);
            if object >= shape.objects {
                return Ok(objects);
            }
            let source = folder.join(format!("object{object:03}.c"));
            write_if_changed(&source, &shape.source(object))?;
            let output = source.with_extension("o");
            compile(&source, &output, &["-Os", "-c", "-ffunction-sections"])?;
            objects.push(output);
        }
    };
    let threads = thread::available_parallelism()?.get();
    let parts: Result<Vec<Vec<_>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("it does not panic")).collect()
    });
    Ok(parts?.concat())
}

/// Returns LLVM's lib/ExecutionEngine, as compiled for the distribution's development package.
fn llvm(folder: &Path) -> Result<Vec<PathBuf>> {
    const LIBRARIES: [&str; 9] = [
        "ExecutionEngine",
        "Interpreter",
        "JITLink",
        "MCJIT",
        "OrcDebugging",
        "OrcJIT",
        "OrcShared",
        "OrcTargetProcess",
        "RuntimeDyld",
    ];
    let config = program(&["llvm-config-19", "llvm-config"]).context("there is no llvm-config")?;
    let output = Command::new(config).arg("--libdir").output()?;
    let libraries = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let mut objects = Vec::new();
    for library in LIBRARIES {
        let path = libraries.join(format!("libLLVM{library}.a"));
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        for member in ArchiveFile::parse(&*bytes)?.members() {
            let member = member?;
            let content = member.data(&*bytes)?;
            if !content.starts_with(b"\x7fELF") {
                bail!("{} has a member that is not an ELF object", path.display());
            }
            let name = format!("{library}.{}", String::from_utf8_lossy(member.name()));
            let object = folder.join(name);
            if fs::metadata(&object).map(|data| data.len()).ok() != Some(content.len() as u64) {
                fs::write(&object, content)?;
            }
            objects.push(object);
        }
    }
    Ok(objects)
}
