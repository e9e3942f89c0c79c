//! The linkers under test, and the outcome of a run.

use super::cases::{Case, Output, Step};
use super::compile::{complete, key_of};
use super::sources::{Unavailable, locked, run};
use super::{Inputs, folder};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A linker that links a program and runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linker {
    /// `longshore link`: the command's file, and its options.
    Longshore(PathBuf, &'static [&'static str]),
    /// LLVM's in-memory linker.
    LlvmJitlink,
    /// The system's linker, by the C compiler's driver, into an executable.
    System,
}

/// The outcome of a case: each step's exit code and stable output, and the remaining files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    steps: Vec<StepOutcome>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StepOutcome {
    /// Exit code, or the negative number of the signal.
    exit: i32,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Linker {
    /// Runs a case in a folder of its own, which is removed afterwards.
    pub fn run(&self, inputs: &Inputs, case: &Case) -> Result<Outcome, Unavailable> {
        let place = TempDir::new()?;
        if let Some(files) = &case.files {
            run(Command::new("cp").arg("-r").arg(files.join(".")).arg(place.path()))?;
        }
        let mut outcome = Outcome::default();
        for step in &case.steps {
            outcome.steps.push(self.run_step(inputs, step, place.path())?);
        }
        if case.compare_files {
            collect(place.path(), place.path(), &mut outcome.files)?;
        }
        Ok(outcome)
    }

    fn run_step(
        &self,
        inputs: &Inputs,
        step: &Step,
        place: &Path,
    ) -> Result<StepOutcome, Unavailable> {
        let program = self.command(inputs, step)?;
        // `timeout` stops a program that hangs, which then fails.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "120"]).arg(program.get_program());
        command.args(program.get_args()).current_dir(place).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        let input = place.join(".stdin");
        fs::write(&input, &step.stdin)?;
        command.stdin(Stdio::from(fs::File::open(&input)?));
        fs::remove_file(input)?;
        let output = command.output()?;
        if let Some(file) = step.stdout_to {
            fs::write(place.join(file), &output.stdout)?;
        }
        let exit = output.status.code().or(output.status.signal().map(|signal| -signal));
        Ok(StepOutcome {
            exit: exit.expect("it exited or was stopped by a signal"),
            stdout: if step.stable != Output::None { output.stdout } else { Vec::new() },
            stderr: if step.stable == Output::Both { output.stderr } else { Vec::new() },
        })
    }

    /// Returns the command that runs the program, after its link by the system's linker if
    /// necessary.
    fn command(&self, inputs: &Inputs, step: &Step) -> Result<Command, Unavailable> {
        let mut command = match self {
            Linker::Longshore(program, options) => {
                let mut command = Command::new(program);
                command.arg("link").args(&inputs.objects).args(*options);
                flagged(&mut command, "--archive", &inputs.archives);
                flagged(&mut command, "--dylib", &inputs.libraries);
                command.arg("--args");
                command
            }
            Linker::LlvmJitlink => {
                let mut command = Command::new("llvm-jitlink-19");
                command.arg(format!("--orc-runtime={ORC_RUNTIME}"));
                command.args(inputs.libraries.iter().map(|name| format!("--preload={name}")));
                command.args(&inputs.objects).args(&inputs.archives);
                // LLVM's runtime takes the program's name as the first argument.
                command.args(["--args", "program"]);
                command
            }
            Linker::System => Command::new(executable(inputs)?),
        };
        command.args(&step.args);
        Ok(command)
    }
}

impl Outcome {
    /// Returns the exit codes of the steps, or the negative number of the signal that stopped a
    /// step.
    pub fn exits(&self) -> Vec<i32> {
        self.steps.iter().map(|step| step.exit).collect()
    }

    /// Describes the first difference of another outcome from this, the expected one. Returns
    /// `None` if they are equal.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        let mut steps = self.steps.iter().zip(&other.steps).enumerate();
        let different = steps.find(|(_, (expected, found))| expected != found);
        if let Some((index, (expected, found))) = different {
            return Some(format!("step {index}: {}", expected.difference(found)));
        }
        let names = self.files.keys().chain(other.files.keys());
        let differs = |name: &&PathBuf| self.files.get(*name) != other.files.get(*name);
        let names: BTreeSet<_> = names.filter(differs).collect();
        (!names.is_empty()).then(|| format!("files that differ: {names:?}\n"))
    }
}

impl StepOutcome {
    fn difference(&self, other: &StepOutcome) -> String {
        let exits = format!("exit {}, expected {}\n", other.exit, self.exit);
        let stdout = difference_of("stdout", &self.stdout, &other.stdout);
        exits + &stdout + &difference_of("stderr", &self.stderr, &other.stderr)
    }
}

const ORC_RUNTIME: &str = "/usr/lib/llvm-19/lib/clang/19/lib/linux/liborc_rt-x86_64.a";

/// Returns the program, linked by the system's linker.
fn executable(inputs: &Inputs) -> Result<PathBuf, Unavailable> {
    let key = key_of(&(&inputs.objects, &inputs.archives, inputs.position_independent));
    let linked = folder().join("linked");
    let executable = linked.join(format!("{key:016x}"));
    locked(&linked.join(format!("{key:016x}.lock")), || {
        if executable.is_file() {
            return Ok(());
        }
        let mut link = Command::new("gcc");
        link.arg(if inputs.position_independent { "-pie" } else { "-no-pie" });
        link.args(&inputs.objects).args(&inputs.archives).arg("-pthread");
        link.args(inputs.libraries.iter().map(|name| format!("-l:{name}")));
        complete(&executable, |partial| run(link.arg("-o").arg(partial)))
    })?;
    Ok(executable)
}

fn flagged<T: AsRef<std::ffi::OsStr>>(command: &mut Command, flag: &str, values: &[T]) {
    values.iter().for_each(|value| {
        command.arg(flag).arg(value);
    });
}

/// Describes the first line in which two outputs differ.
fn difference_of(stream: &str, expected: &[u8], found: &[u8]) -> String {
    if expected == found {
        return String::new();
    }
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(shown).collect::<Vec<_>>();
    let (expected, found) = (lines(expected), lines(found));
    let same = expected.iter().zip(&found).take_while(|(one, other)| one == other).count();
    let line = |lines: &[String]| lines.get(same).map_or("(the end)", String::as_str).to_owned();
    let (number, expected, found) = (same + 1, line(&expected), line(&found));
    format!("{stream}, line {number}: found '{found}', expected '{expected}'\n")
}

/// Returns the beginning of a line, with bytes outside ASCII escaped.
fn shown(line: &[u8]) -> String {
    let beginning = &line[..line.len().min(400)];
    beginning.escape_ascii().to_string()
}

/// Returns the contents of all files below a folder, by their paths in `root`.
fn collect(
    root: &Path,
    folder: &Path,
    into: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), Unavailable> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, into)?;
        } else {
            let name = path.strip_prefix(root).expect("it lies below the root");
            into.insert(name.to_owned(), fs::read(&path)?);
        }
    }
    Ok(())
}
