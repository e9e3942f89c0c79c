//! The program of `examples/jacobi` on four nodes, beside the same in plain MPI on four ranks. Both
//! have one thread for the arithmetic of each part, and both are compiled by the same clang with
//! the same options. All cells must be equal.

use crate::jobs::{Launcher, release};
use anyhow::{Context, Result, ensure};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::Times;
use longshore_tests::device_code::clangs;
use longshore_tests::world::root;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Numbers of columns, and of steps.
const SIZES: [(usize, usize); 3] = [(512, 1000), (2048, 200), (4096, 50)];
const ROUNDS: usize = 5;
const PARTS: usize = 4;
const OPTIONS: [&str; 2] = ["-O3", "-ffp-contract=on"];
/// The level of processors for both.
const LEVEL: &str = "x86-64-v3";

/// The programs, compiled.
struct Programs {
    folder: tempfile::TempDir,
    image: PathBuf,
    plain: PathBuf,
}

/// Measures with one launcher; `wrapper` is its compiler.
pub(crate) fn measure(launcher: &Launcher, wrapper: &str) -> Result<()> {
    let Some(programs) = Programs::compile(wrapper)? else { return Ok(()) };
    println!("processes: the program and 4 nodes with their watchers; 4 ranks in plain MPI");
    let mut report = Report::new();
    for (columns, steps) in SIZES {
        let (mut floors, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let files = ["plain.cells", "ours.cells"].map(|name| programs.folder.path().join(name));
            floors.push(programs.run_plain(launcher, columns, steps, &files[0])? / steps as u32);
            ours.push(programs.run_ours(launcher, columns, steps, &files[1])? / steps as u32);
            compare(&files)?;
        }
        if let (Some(floor), Some(ours)) = (Times::new(floors), Times::new(ours)) {
            let limit = Limit::from_floor("1.1 times", &floor, |time| time.mul_f64(1.1));
            let name = format!("a step of {columns} x {columns} cells on 4 nodes");
            report.row(&name, Some(&floor), &ours, limit);
        }
    }
    report.print();
    println!("all cells of all runs are equal, bit for bit");
    Ok(())
}

impl Programs {
    /// Compiles both programs; `None` without a clang or the wrapper of MPI's compiler.
    fn compile(wrapper: &str) -> Result<Option<Self>> {
        let Some(clang) = clangs().pop() else { return Ok(None) };
        if Command::new(wrapper).arg("--version").output().is_err() {
            println!("{wrapper} is not installed; nothing was measured");
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let (image, plain) = (folder.path().join("kernel.img"), folder.path().join("plain"));
        let sources = root().join("examples/jacobi");
        let mut compiler = Command::new(release()?.join("longshore"));
        compiler.arg("cc").arg(sources.join("kernel.c")).args(["--clang", clang, "-o"]);
        compiler.arg(&image).args(["--target", &format!("x86_64:{LEVEL}")]);
        output(compiler.args(OPTIONS))?;
        let mut compiler = Command::new(wrapper);
        compiler.env("OMPI_CC", clang).env("MPICH_CC", clang).args(OPTIONS);
        compiler.arg(format!("-march={LEVEL}"));
        output(compiler.arg(sources.join("plain.c")).arg("-o").arg(&plain))?;
        Ok(Some(Self { folder, image, plain }))
    }

    fn run_plain(
        &self,
        launcher: &Launcher,
        columns: usize,
        steps: usize,
        to: &Path,
    ) -> Result<Duration> {
        let mut command = launcher.command();
        command.args(["-n", &PARTS.to_string()]).arg(&self.plain);
        command.args([columns.to_string(), steps.to_string()]).arg(to);
        time(&mut command)
    }

    fn run_ours(
        &self,
        launcher: &Launcher,
        columns: usize,
        steps: usize,
        to: &Path,
    ) -> Result<Duration> {
        let release = release()?;
        let mut command = launcher.command();
        command.args(["-n", "1"]).arg(release.join("examples/jacobi")).arg(&self.image);
        command.args([columns.to_string(), steps.to_string()]).arg(to);
        command.args([":", "-n", &PARTS.to_string()]).arg(release.join("longshore-node"));
        command.env("LONGSHORE_BACKEND", "mpi").env("LONGSHORE_MPI_PROGRAMS", "1");
        command.env("LONGSHORE_PLUGIN_PATH", release).env("LONGSHORE_NODE_BACKEND", "host");
        command.env("LONGSHORE_HOST_THREADS", "1");
        time(&mut command)
    }
}

/// Compares the cells of two files.
fn compare(files: &[PathBuf; 2]) -> Result<()> {
    let [plain, ours] = files;
    let (plain, ours) = (std::fs::read(plain)?, std::fs::read(ours)?);
    ensure!(plain.len() == ours.len(), "{} and {} bytes of cells", plain.len(), ours.len());
    let cells = |bytes: &[u8]| {
        bytes.as_chunks().0.iter().map(|cell| f64::from_le_bytes(*cell)).collect::<Vec<_>>()
    };
    let pairs = cells(&plain).into_iter().zip(cells(&ours));
    let most = pairs.map(|(plain, ours)| (plain - ours).abs()).fold(0.0, f64::max);
    ensure!(plain == ours, "the cells differ by up to {most}");
    Ok(())
}

/// Runs a program and returns the time that its first line states.
fn time(command: &mut Command) -> Result<Duration> {
    let said = output(command)?;
    let seconds = said.split_whitespace().next().context("a time")?;
    Ok(Duration::from_secs_f64(seconds.parse()?))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
