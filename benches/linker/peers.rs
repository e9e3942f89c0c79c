//! The other linkers: their command lines for the same work, and the sources of their times.

use crate::survey::Survey;
use crate::workloads::{Workload, compile, program, write_if_changed};
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time in seconds after which a run is abandoned.
const LIMIT: &str = "60";

/// Files for the in-memory peers beside the objects.
pub(crate) struct JitInputs {
    objects: Vec<PathBuf>,
    /// An object with an empty `main`, a table with references to every object, as the peers link
    /// only needed objects, and `__dso_handle`, which must be near the code.
    root: PathBuf,
    /// A shared object that defines the undefined symbols of all objects.
    externals: PathBuf,
}

impl JitInputs {
    /// Creates the files for a workload.
    ///
    /// # Errors
    /// A compiler that is missing or fails.
    pub(crate) fn prepare(workload: &Workload, survey: &Survey) -> Result<Self> {
        let folder = workload.folder.join("peers");
        fs::create_dir_all(&folder)?;
        let mut main = String::from(".globl main, objects\n.text\nmain: xorl %eax, %eax\nret\n");
        main.push_str(".globl __dso_handle\n.data\n__dso_handle:\nobjects:\n");
        let mut all = String::from(".text\n");
        for name in &survey.roots {
            writeln!(main, ".quad \"{name}\"")?;
        }
        for name in survey.undefined.iter().filter(|name| *name != "__dso_handle") {
            writeln!(all, ".globl \"{name}\"\n.type \"{name}\", @function\n\"{name}\":")?;
        }
        writeln!(all, "ret")?;
        let (main_source, all_source) = (folder.join("main.s"), folder.join("externals.s"));
        write_if_changed(&main_source, &main)?;
        write_if_changed(&all_source, &all)?;
        let (root, externals) = (folder.join("main.o"), folder.join("externals.so"));
        compile(&main_source, &root, &["-c"])?;
        compile(&all_source, &externals, &["-shared", "-nostdlib"])?;
        Ok(Self { objects: workload.objects.clone(), root, externals })
    }
}

/// Runs JITLink under ORC without executing code: reading, linking, protecting, and registering
/// with the session.
///
/// # Errors
/// A tool that is missing or fails.
pub(crate) fn jitlink(inputs: &JitInputs) -> Result<Duration> {
    let mut command = limited(&["llvm-jitlink-19", "llvm-jitlink"])?;
    command.args(["-noexec", "-phony-externals", "-show-times", "-entry=main"]);
    timed_by_itself(command.arg(&inputs.root).args(&inputs.objects))
}

/// Runs RuntimeDyld under its tool, which executes an empty `main`: reading and linking, without
/// protecting.
///
/// # Errors
/// A tool that is missing or fails.
pub(crate) fn runtime_dyld(inputs: &JitInputs) -> Result<Duration> {
    let mut command = limited(&["llvm-rtdyld-19", "llvm-rtdyld"])?;
    command.args(["-execute", "-show-times", "-entry=main", "-dylib"]).arg(&inputs.externals);
    timed_by_itself(command.args(&inputs.objects).arg(&inputs.root))
}

/// Returns the command for a tool, which is killed after [`LIMIT`].
fn limited(names: &[&str]) -> Result<Command> {
    let tool = program(names).with_context(|| format!("{} is not installed", names[0]))?;
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(tool);
    Ok(command)
}

/// Runs one of LLVM's tools, which may report errors and still succeed. Returns the wall clock time
/// of its timers: `Total Execution Time: 0.6123 seconds (0.6676 wall clock)`.
fn timed_by_itself(command: &mut Command) -> Result<Duration> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(124) {
        bail!("takes more than {LIMIT} s");
    }
    let complaint = text.lines().find(|line| line.contains("error:"));
    if !output.status.success() || complaint.is_some() {
        bail!("fails: {}", complaint.unwrap_or("no message"));
    }
    let line = text.lines().find(|line| line.contains("Total Execution Time"));
    let seconds = line.and_then(|line| line.rsplit('(').next()?.split(' ').next()?.parse().ok());
    Ok(Duration::from_secs_f64(seconds.context("its timers have no output")?))
}

/// A linker that writes a file.
pub(crate) struct FileLinker {
    column: String,
    program: Option<PathBuf>,
    arguments: Vec<String>,
}

/// Returns lld, mold and wild, each on one thread and on its own choice of threads.
pub(crate) fn file_linkers() -> Vec<FileLinker> {
    const LINKERS: [(&str, &[&str], &str); 3] = [
        ("lld", &["ld.lld-19", "ld.lld"], "--threads=1"),
        ("mold", &["mold"], "--thread-count=1"),
        ("wild", &["wild"], "--threads=1"),
    ];
    let mut linkers = Vec::new();
    for (name, programs, one_thread) in LINKERS {
        let options = [(format!("{name}, 1 thread"), Some(one_thread)), (name.to_owned(), None)];
        for (column, option) in options {
            let arguments = ["-shared", "-Bsymbolic"].into_iter().chain(option);
            let arguments = arguments.map(str::to_owned).collect();
            linkers.push(FileLinker { column, program: program(programs), arguments });
        }
    }
    linkers
}

/// Returns an empty object. Its link takes the time that every process of a linker needs.
///
/// # Errors
/// A compiler that is missing or fails.
pub(crate) fn empty_object(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("empty.s");
    write_if_changed(&source, ".text\n")?;
    let object = source.with_extension("o");
    compile(&source, &object, &["-c"])?;
    Ok(object)
}

impl FileLinker {
    pub(crate) fn column(&self) -> &str {
        &self.column
    }

    /// Links the objects into a shared object at `output`. Returns the time of the process.
    ///
    /// # Errors
    /// A linker that is missing or fails.
    pub(crate) fn run(&self, objects: &[PathBuf], output: &Path) -> Result<Duration> {
        let program = self.program.as_ref().context("is not installed")?;
        let _ = fs::remove_file(output);
        let mut command = Command::new(program);
        command.args(&self.arguments).arg("-o").arg(output).args(objects).stdin(Stdio::null());
        let start = Instant::now();
        let result = command.output()?;
        let took = start.elapsed();
        if !result.status.success() {
            let text = String::from_utf8_lossy(&result.stderr);
            bail!("fails: {}", text.lines().next().unwrap_or("no message"));
        }
        Ok(took)
    }
}
