//! Behaviours in processes of their own: one that dies is a failure, and the next one runs.

use crate::Options;
use longshore_conformance::{Behaviour, DeviceName, Outcome, Setup};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a process may take beyond the limit of its behaviour, to start and to end.
const MARGIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a behaviour in a process of its own. Blocks.
pub(super) fn run(options: &Options, device: &DeviceName, behaviour: &Behaviour) -> Outcome {
    attempt(options, device, behaviour)
        .unwrap_or_else(|error| Outcome::Failed(format!("no process to run it in: {error}")))
}

fn attempt(options: &Options, device: &DeviceName, behaviour: &Behaviour) -> io::Result<Outcome> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    for plugin in &options.plugin {
        command.arg("--plugin").arg(plugin);
    }
    if let Some(fixtures) = &options.fixtures {
        command.arg("--fixtures").arg(fixtures);
    }
    command.args(["--device", &format!("{}:{}", device.backend, device.index)]);
    command.args(["--behaviour", &behaviour.to_string()]).arg("--outcome").arg(file.path());
    // Output of a kernel or a plugin is not part of the report.
    let log = io::stderr().as_fd().try_clone_to_owned()?;
    let mut child = command.stdin(Stdio::null()).stdout(log).spawn()?;
    let status = wait(&mut child)?;
    Ok(judge(read(file.path()), status))
}

/// The status of the child, `None` if it had to be killed.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + Setup::time_limit() + MARGIN;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Combines the output of a process with its end.
fn judge(outcome: Option<Outcome>, status: Option<ExitStatus>) -> Outcome {
    let end = match status {
        Some(status) if status.success() => None,
        Some(status) => Some(ended(status)),
        None => Some("did not end, and was killed".to_owned()),
    };
    match (outcome, end) {
        (Some(failed @ Outcome::Failed(_)), _) => failed,
        (Some(outcome), None) => outcome,
        (Some(_), Some(end)) => Outcome::Failed(format!("its process {end}, after the behaviour")),
        (None, Some(end)) => Outcome::Failed(format!("its process {end}")),
        (None, None) => {
            Outcome::Failed("its process ended with exit status 0 in the middle of it".to_owned())
        }
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("died of {}", signal_name(signal)),
        (None, code) => format!("ended with exit status {}", code.unwrap_or_default()),
    }
}

fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 9] = [
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (15, "SIGTERM"),
        (31, "SIGSYS"),
    ];
    let known = NAMES.iter().find(|(number, _)| *number == signal);
    known.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

/// Runs the one behaviour that this process is for, and leaves its outcome in the file.
pub(super) fn serve(setup: &Setup, device: &str, behaviour: &str, file: &Path) -> io::Result<()> {
    let unusable = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let known = longshore_conformance::behaviours().find(|known| known.to_string() == behaviour);
    let known = known.ok_or_else(|| unusable(format!("there is no behaviour '{behaviour}'")))?;
    let parts = device.rsplit_once(':').and_then(|(name, index)| Some((name, index.parse().ok()?)));
    let (backend, index) = parts.ok_or_else(|| unusable(format!("'{device}' is no device")))?;
    let device = DeviceName { backend: backend.to_owned(), index, name: device.to_owned() };
    write(file, &setup.run(&device, known))
}

fn write(file: &Path, outcome: &Outcome) -> io::Result<()> {
    let (word, text) = match outcome {
        Outcome::Passed => ("passed", ""),
        Outcome::Skipped(why) => ("skipped", why.as_str()),
        Outcome::Failed(what) => ("failed", what.as_str()),
    };
    let mut file = std::fs::OpenOptions::new().write(true).open(file)?;
    file.write_all(format!("{word}\n{text}").as_bytes())
}

/// The outcome that a process left, if it came so far.
fn read(file: &Path) -> Option<Outcome> {
    let content = std::fs::read_to_string(file).ok()?;
    let (word, text) = content.split_once('\n')?;
    match word {
        "passed" => Some(Outcome::Passed),
        "skipped" => Some(Outcome::Skipped(text.to_owned())),
        "failed" => Some(Outcome::Failed(text.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_the_way_through_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(read(file.path()), None);
        for outcome in [
            Outcome::Passed,
            Outcome::Skipped("it has none".to_owned()),
            Outcome::Failed("one\ntwo".to_owned()),
        ] {
            file.as_file().set_len(0).unwrap();
            write(file.path(), &outcome).unwrap();
            assert_eq!(read(file.path()), Some(outcome));
        }
    }

    #[test]
    fn a_process_that_does_not_end_well_is_a_failure() {
        let status = |raw| Some(ExitStatus::from_raw(raw));
        let what = |outcome, status| match judge(outcome, status) {
            Outcome::Failed(what) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(judge(Some(Outcome::Passed), status(0)), Outcome::Passed);
        assert_eq!(what(None, status(11)), "its process died of SIGSEGV");
        assert_eq!(what(None, status(3 << 8)), "its process ended with exit status 3");
        assert!(what(None, status(0)).contains("in the middle"));
        assert!(what(Some(Outcome::Passed), status(6)).ends_with("SIGABRT, after the behaviour"));
        assert_eq!(what(Some(Outcome::Failed("late".into())), None), "late");
    }
}
