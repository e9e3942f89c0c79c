//! SPIRV-Tools' command `spirv-val`, which judges one module in a process of its own.

mod process;

use super::probe::probe;
use crate::validate::rules::{Environment, Layouts, Rules, Verdict};
use process::ProcessResult;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

const PROGRAM: &str = "spirv-val";
/// Time limit for one module. The largest modules of compilers take some seconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns the folders to search for programs. `None` in a process with more rights than its user.
pub(super) fn search_path() -> Option<OsString> {
    // SAFETY: the function has no precondition.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os("PATH").filter(|_| !is_privileged)
}

/// The command. Any thread may use it.
pub(super) struct Command {
    program: PathBuf,
    time_limit: Duration,
    /// Whether the command works, in the order of [`Environment::ALL`]; determined at the first
    /// need.
    usable: [OnceLock<Result<(), String>>; Environment::ALL.len()],
}

impl Command {
    /// Finds the command in these folders. Relative folders are skipped: their contents depend on
    /// the current folder.
    ///
    /// # Errors
    /// A missing command, or no folders.
    pub(super) fn find(path: Option<&OsStr>) -> Result<Command, String> {
        Command::find_with(path, TIME_LIMIT)
    }

    fn find_with(path: Option<&OsStr>, time_limit: Duration) -> Result<Command, String> {
        let Some(path) = path else {
            return Err(format!("{PROGRAM}: no PATH that this process may use"));
        };
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        let program = folders.map(|folder| folder.join(PROGRAM)).find(|file| is_program(file));
        let program = program.ok_or_else(|| format!("{PROGRAM}: not in PATH"))?;
        Ok(Command { program, time_limit, usable: Default::default() })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the identity of the command's file, which differs between versions.
    ///
    /// # Errors
    /// A command that no longer exists.
    pub(super) fn identity(&self) -> Result<Vec<u8>, String> {
        let facts = self.program.metadata();
        let facts = facts.map_err(|error| format!("{}: {error}", self.program.display()))?;
        let numbers = [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()];
        let numbers =
            numbers.map(i64::cast_unsigned).into_iter().chain([facts.size(), facts.ino()]);
        let numbers: Vec<_> = numbers.flat_map(u64::to_le_bytes).collect();
        Ok([&numbers, self.program.as_os_str().as_encoded_bytes()].concat())
    }

    /// Tests the command, unless it was tested before. Blocks.
    ///
    /// # Errors
    /// A command that cannot be started, does not know the environment, or gives wrong verdicts.
    pub(super) fn probe(&self, environment: Environment) -> Result<(), String> {
        let position = Environment::ALL.iter().position(|known| *known == environment);
        let usable = &self.usable[position.expect("all environments are listed")];
        let layouts = Layouts { scalar: true, standard_uniform: true };
        let judge = |words: &[u32]| self.verdict(words, Rules { environment, layouts });
        let tried = usable.get_or_init(|| {
            let name = environment.name().to_string_lossy();
            probe(judge).map_err(|why| format!("{} for {name}: {why}", self.program.display()))
        });
        tried.clone()
    }

    /// Tests the command for all environments. Blocks.
    ///
    /// # Errors
    /// The errors of [`Command::probe`].
    pub(super) fn probe_all(&self) -> Result<(), String> {
        Environment::ALL.into_iter().try_for_each(|environment| self.probe(environment))
    }

    /// Judges a module. Blocks while the command runs.
    ///
    /// # Errors
    /// A command that gives no verdict: it cannot be started, crashes, exceeds the time limit, or
    /// writes too much output or unknown output.
    pub(super) fn verdict(&self, words: &[u32], rules: Rules) -> Result<Verdict, String> {
        let mut command = std::process::Command::new(&self.program);
        command.arg("--target-env").arg(OsStr::new(&*rules.environment.name().to_string_lossy()));
        if rules.layouts.scalar {
            command.arg("--scalar-block-layout");
        }
        if rules.layouts.standard_uniform {
            command.arg("--uniform-buffer-standard-layout");
        }
        // The module comes on standard input.
        command.arg("-");
        process::run(command, words, self.time_limit).and_then(|ended| read(&ended))
    }
}

fn is_program(file: &Path) -> bool {
    const EXECUTABLE: u32 = 0o111;
    file.metadata().is_ok_and(|facts| facts.is_file() && facts.mode() & EXECUTABLE != 0)
}

/// Reads a verdict from the exit code and the output.
fn read(ended: &ProcessResult) -> Result<Verdict, String> {
    let output = String::from_utf8_lossy(&ended.output);
    match (ended.status.code(), error_text(&output)) {
        (Some(0), None) => Ok(Verdict::Valid),
        (Some(code), Some(text)) if code != 0 => Ok(Verdict::invalid(text)),
        _ => {
            let said = output.trim();
            let said = &said[..said.floor_char_boundary(200)];
            Err(format!(
                "{PROGRAM} ended with {} and the output '{said}', expected a verdict",
                ended.status
            ))
        }
    }
}

/// Returns the text of an error in the output: "error: line 9: It breaks a rule." and the
/// instruction. The line number counts instructions.
fn error_text(output: &str) -> Option<&str> {
    let start = match output.strip_prefix("error: ") {
        Some(text) => text,
        None => output.split_once("\nerror: ")?.1,
    };
    let without_line = start.strip_prefix("line ").and_then(|rest| {
        let (number, text) = rest.split_once(": ")?;
        number.bytes().all(|digit| digit.is_ascii_digit()).then_some(text)
    });
    Some(without_line.unwrap_or(start))
}

#[cfg(test)]
mod tests;
