//! Trying a plugin in a process of its own first, so that one that aborts, hangs or exits while
//! it connects costs that process and not the program.
//!
//! The child opens and connects the plugin, destroys its platform, writes one line to its standard
//! output and ends with exit code 0. The line consists of fields separated by tabs: a marker,
//! [`Outcome::label`] and what the outcome holds. What the plugin itself prints does not matter.
//! Anything else is a crash.

use super::library::{LoadedPlugin, PluginFile};
use super::report::Outcome;
use super::search::backend_of;
use crate::environment::Environment;
use longshore_plugin_api::{Error, ErrorCode};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const MARKER: &str = "longshore-probe";
const DEFAULT_LIMIT: Duration = Duration::from_secs(10);
/// How much of what the child printed is looked at, from its end.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// How to try plugins in processes of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    command: PathBuf,
    arguments: Vec<OsString>,
    limit: Duration,
}

impl Probe {
    /// Tries each plugin with `command __probe FILE`, where `command` is the `longshore` command
    /// or any program that passes FILE to [`probe_main`]. It may take 10 seconds.
    pub fn with(command: impl Into<PathBuf>) -> Probe {
        let arguments = vec!["__probe".into()];
        Probe { command: command.into(), arguments, limit: DEFAULT_LIMIT }
    }

    /// Other arguments before FILE than `__probe`.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Probe {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Another time limit for each plugin.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Probe {
        self.limit = limit;
        self
    }

    /// With the `longshore` command in the folder of the running executable.
    pub(super) fn beside_executable() -> Probe {
        let executable = std::env::current_exe().unwrap_or_default();
        Probe::with(executable.with_file_name("longshore"))
    }

    /// What becomes of the plugin in another process, which sees the settings of `environment`.
    /// Blocks, at most for the time limit.
    pub(super) fn run(&self, path: &Path, environment: &Environment) -> Outcome {
        match self.start(path, environment) {
            Ok(running) => running.outcome(self.limit),
            Err(error) => {
                let (command, path) = (self.command.display(), path.display());
                let message = format!("probing '{path}' with '{command}': {error}");
                Outcome::Failed(Error::new(ErrorCode::HostToolNotFound, message))
            }
        }
    }

    fn start(&self, path: &Path, environment: &Environment) -> std::io::Result<Running> {
        let capture = || memfd_create(MARKER, MemfdFlags::CLOEXEC).map(File::from);
        let (output, errors) = (capture()?, capture()?);
        let mut command = Command::new(&self.command);
        environment.apply_to(&mut command);
        command.args(&self.arguments).arg(path).process_group(0);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?);
        Ok(Running { child: command.spawn()?, output, errors })
    }
}

/// The child's side: opens and connects the plugin in `path` and writes the outcome to standard
/// output. Returns the exit code with which the process must end at once. Blocks, and may well not
/// return. Writes no core file when the plugin crashes.
pub fn probe_main(path: &Path) -> i32 {
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    // A system that forbids it only gains a core file.
    let _ = setrlimit(Resource::Core, no_core);
    let file = PluginFile { path, loader_path: path };
    let opened = LoadedPlugin::open(file, &backend_of(path), &Environment::of_process());
    let outcome = match opened {
        Ok(plugin) => {
            drop(plugin);
            Outcome::Loaded
        }
        Err(outcome) => outcome,
    };
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(encode(&outcome).as_bytes()).and_then(|()| stdout.flush());
    i32::from(written.is_err())
}

/// A child that is trying a plugin. What it prints goes to memory, so that nothing it leaves
/// running can keep us waiting for the end of a pipe.
struct Running {
    child: Child,
    output: File,
    errors: File,
}

impl Running {
    fn outcome(mut self, limit: Duration) -> Outcome {
        let status = match wait_until(&mut self.child, Instant::now() + limit) {
            Ok(Some(status)) => status,
            Ok(None) => {
                self.kill();
                let how = format!("it did not answer within {limit:?} and was killed");
                return Outcome::Crashed(how + &self.last_words());
            }
            Err(error) => {
                self.kill();
                let message = format!("waiting for the probing process: {error}");
                return Outcome::Failed(Error::new(ErrorCode::HostIo, message));
            }
        };
        let verdict = tail(&self.output).lines().rev().find_map(decode);
        match verdict.filter(|_| status.success()) {
            Some(outcome) => outcome,
            None => Outcome::Crashed(describe(status) + &self.last_words()),
        }
    }

    /// Ends the child and what it started.
    fn kill(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // It may have ended by itself in the meantime.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }

    /// The last line of its standard error, for a message.
    fn last_words(&self) -> String {
        let said = tail(&self.errors);
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        last.map(|line| format!("; its last words: {line}")).unwrap_or_default()
    }
}

/// Waits for the child's end; `None` if it still runs at the deadline.
fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn describe(status: ExitStatus) -> String {
    match status.success() {
        true => "it ended the process while connecting".to_owned(),
        false => format!("it ended the process with {status}"),
    }
}

/// The end of a captured output; what cannot be read is left out.
fn tail(file: &File) -> String {
    let bytes = file.metadata().map_or(0, |facts| facts.len());
    let mut data = vec![0; bytes.min(MAX_OUTPUT_BYTES) as usize];
    let read = file.read_at(&mut data, bytes.saturating_sub(MAX_OUTPUT_BYTES)).unwrap_or(0);
    String::from_utf8_lossy(&data[..read]).into_owned()
}

/// The line for an outcome, on a line of its own whatever was printed before it.
fn encode(outcome: &Outcome) -> String {
    let mut fields = vec![MARKER.to_owned(), outcome.label().to_owned()];
    match outcome {
        Outcome::Loaded => {}
        Outcome::Misnamed { says } => fields.push(says.clone()),
        Outcome::WrongInterface { plugin, host } => {
            fields.extend([plugin.0, plugin.1, host.0, host.1].map(|number| number.to_string()));
        }
        Outcome::Failed(error) => {
            let (name, number) =
                error.vendor().map_or(("", 0), |vendor| (&vendor.name, vendor.number));
            let (code, number) = ((error.code() as u32).to_string(), number.to_string());
            fields.extend([code, name.to_owned(), number, error.message().to_owned()]);
        }
        other => fields.push(other.reason()),
    }
    let fields: Vec<String> = fields.iter().map(|field| escape(field)).collect();
    format!("\n{}\n", fields.join("\t"))
}

/// The outcome that a line tells; `None` if it is not one of ours.
fn decode(line: &str) -> Option<Outcome> {
    let fields: Vec<String> = line.split('\t').map(unescape).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let [MARKER, label, held @ ..] = fields.as_slice() else {
        return None;
    };
    match (*label, held) {
        ("loaded", []) => Some(Outcome::Loaded),
        ("no driver", [why]) => Some(Outcome::NoDriver((*why).to_owned())),
        ("no device", [why]) => Some(Outcome::NoDevice((*why).to_owned())),
        ("no plugin", [why]) => Some(Outcome::NotAPlugin((*why).to_owned())),
        ("wrong layout", [why]) => Some(Outcome::WrongLayout((*why).to_owned())),
        ("wrong name", [says]) => Some(Outcome::Misnamed { says: (*says).to_owned() }),
        ("wrong interface", [a, b, c, d]) => {
            let plugin = (a.parse().ok()?, b.parse().ok()?);
            Some(Outcome::WrongInterface { plugin, host: (c.parse().ok()?, d.parse().ok()?) })
        }
        ("failed", [code, name, number, message]) => {
            let error = Error::new(ErrorCode::from_raw(code.parse().ok()?), *message);
            let number = number.parse().ok()?;
            Some(Outcome::Failed(if name.is_empty() {
                error
            } else {
                error.with_vendor(*name, number)
            }))
        }
        _ => None,
    }
}

fn escape(field: &str) -> String {
    field.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

fn unescape(field: &str) -> String {
    let mut plain = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_of_opening_survives_the_trip_through_its_line() {
        let odd = "tab\there, line\nbreak\r, back\\slash\\n";
        let error = Error::new(ErrorCode::OutOfResources, odd);
        let outcomes = [
            Outcome::Loaded,
            Outcome::NoDriver(odd.into()),
            Outcome::NoDevice(String::new()),
            Outcome::NotAPlugin(odd.into()),
            Outcome::WrongLayout(odd.into()),
            Outcome::Misnamed { says: "other".into() },
            Outcome::WrongInterface { plugin: (2, 3), host: (1, 0) },
            Outcome::Failed(error.clone()),
            Outcome::Failed(error.with_vendor("TOY_ERROR", -7)),
        ];
        for outcome in outcomes {
            let line = encode(&outcome);
            assert_eq!(decode(line.trim_matches('\n')), Some(outcome), "{line}");
        }
    }

    #[test]
    fn other_lines_are_no_outcome() {
        for line in ["", "noise", MARKER, "longshore-probe\tloaded\tx", "longshore-probe\tfailed"] {
            assert_eq!(decode(line), None, "{line}");
        }
    }

    #[test]
    fn a_probing_command_that_is_missing_is_named() {
        let outcome = Probe::with("/nowhere/longshore").run(Path::new("/x"), &Environment::empty());
        let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.code(), ErrorCode::HostToolNotFound);
        assert!(error.message().contains("'/nowhere/longshore'"), "{error}");
    }
}
