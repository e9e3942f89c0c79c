//! The measured programs: compilation, and runs with one of the libraries.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use xtask::process;
use xtask::shared_library::{self, OPENMP};

/// The folder of LLVM 19's libraries.
const LLVM: &str = "/usr/lib/llvm-19/lib";

/// The flag that compiles target regions for the CPU.
const TARGET: &str = "-fopenmp-targets=x86_64-pc-linux-gnu";

/// A library under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Longshore,
    Llvm,
}

/// The compiled programs, and a folder with Longshore's library.
pub(crate) struct Programs {
    folder: TempDir,
    plugins: PathBuf,
}

impl Programs {
    /// Compiles the programs; `None` without the compiler or LLVM's library.
    pub(crate) fn compile() -> Result<Option<Programs>> {
        let has_compiler = Command::new("clang-19").arg("--version").output().is_ok();
        if !has_compiler || !Path::new(LLVM).join("libomptarget.so.19.1").exists() {
            return Ok(None);
        }
        let folder = TempDir::new()?;
        let plugins = process::target_folder().join("release");
        let library = OPENMP.link(&plugins)?;
        shared_library::link_openmp_names(&library, &folder.path().join("longshore"))?;
        let programs = Programs { folder, plugins };
        programs.compile_one("regions.c", "regions", &[TARGET])?;
        let names = ["-DNAME=\"nowait_region\"", "-DNAME=\"nowait_region_beside_parallel\""];
        programs.compile_one("nowait.c", "nowait", &[TARGET, names[0]])?;
        programs.compile_one("nowait.c", "nowait-parallel", &[TARGET, names[1], "-DPARALLEL"])?;
        programs.compile_one("start.c", "start", &[TARGET, "-DOFFLOAD"])?;
        programs.compile_one("start.c", "start-plain", &[])?;
        Ok(Some(programs))
    }

    fn compile_one(&self, source: &str, name: &str, flags: &[&str]) -> Result<()> {
        let source = concat_path(&["openmp", "programs", source]);
        let mut compiler = Command::new("clang-19");
        compiler.args(["-O2", "-fopenmp"]).arg(source).arg("-o").arg(self.folder.path().join(name));
        compiler.arg(format!("-L{LLVM}")).args(flags);
        ensure!(compiler.status()?.success(), "clang-19 does not compile {name}");
        Ok(())
    }

    fn command(&self, name: &str, library: Library) -> Command {
        let mut command = Command::new(self.folder.path().join(name));
        let ours = self.folder.path().join("longshore");
        let path = match library {
            Library::Longshore => format!("{}:{LLVM}", ours.display()),
            Library::Llvm => LLVM.to_owned(),
        };
        command.env("LD_LIBRARY_PATH", path).env("LONGSHORE_PLUGIN_PATH", &self.plugins);
        command.env("LONGSHORE_BACKEND", "host").env("OMP_TARGET_OFFLOAD", "MANDATORY");
        command
    }

    /// Runs the programs that measure themselves. Returns names and times in nanoseconds.
    pub(crate) fn run(&self, library: Library) -> Result<Vec<(String, f64)>> {
        let names = ["regions", "nowait", "nowait-parallel"];
        let times = names.map(|name| self.run_one(name, library));
        Ok(times.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    fn run_one(&self, name: &str, library: Library) -> Result<Vec<(String, f64)>> {
        let output = self.command(name, library).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{library:?}: {errors}");
        let text = String::from_utf8(output.stdout)?;
        let lines = text.lines().map(|line| {
            let (name, ns) = line.split_once(' ').context("a name and a time")?;
            Ok((name.to_owned(), ns.parse()?))
        });
        lines.collect()
    }

    /// Returns the time from the start of a process to its `main`, in nanoseconds.
    pub(crate) fn start(&self, library: Library, offloads: bool) -> Result<f64> {
        let name = if offloads { "start" } else { "start-plain" };
        let mut command = self.command(name, library);
        let begin = now();
        let output = command.output()?;
        ensure!(output.status.success(), "{library:?}: {name}");
        let main: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
        Ok(main - begin)
    }
}

/// Returns the time of the clock that the programs read, in nanoseconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn concat_path(parts: &[&str]) -> PathBuf {
    parts.iter().fold(PathBuf::from(env!("CARGO_MANIFEST_DIR")), |path, part| path.join(part))
}
