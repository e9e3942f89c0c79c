//! Outcomes of behaviours in processes of their own, and the ends of such processes.

use crate::Outcome;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// The beginning of failures of behaviours whose process did not end well.
pub const DIED: &str = "its process ";

/// Writes an outcome into an existing file, for [`read`].
///
/// # Errors
/// Errors of opening the file and of writing to it.
pub fn write(file: &Path, outcome: &Outcome) -> io::Result<()> {
    let (word, text) = match outcome {
        Outcome::Passed => ("passed", ""),
        Outcome::Skipped(why) => ("skipped", why.as_str()),
        Outcome::Failed(what) => ("failed", what.as_str()),
    };
    let mut file = OpenOptions::new().write(true).open(file)?;
    file.write_all(format!("{word}\n{text}").as_bytes())
}

/// Returns the outcome that a process has written, or `None` if it ended before.
pub fn read(file: &Path) -> Option<Outcome> {
    let content = std::fs::read_to_string(file).ok()?;
    let (word, text) = content.split_once('\n')?;
    match word {
        "passed" => Some(Outcome::Passed),
        "skipped" => Some(Outcome::Skipped(text.to_owned())),
        "failed" => Some(Outcome::Failed(text.to_owned())),
        _ => None,
    }
}

/// Combines the outcome that a process has written with the exit status of the process, which is
/// `None` if the process had to be killed.
pub fn judge(outcome: Option<Outcome>, status: Option<ExitStatus>) -> Outcome {
    match (outcome, end(status)) {
        (Some(failed @ Outcome::Failed(_)), _) => failed,
        (Some(outcome), None) => outcome,
        (Some(_), Some(end)) => Outcome::Failed(format!("{DIED}{end}, after the behaviour")),
        (None, Some(end)) => Outcome::Failed(format!("{DIED}{end}")),
        (None, None) => {
            Outcome::Failed(format!("{DIED}ended with exit status 0 in the middle of it"))
        }
    }
}

/// Describes the end of a process, for a sentence that begins with [`DIED`]; `None` for success.
/// `status` is the exit status, or `None` if the process had to be killed.
pub fn end(status: Option<ExitStatus>) -> Option<String> {
    match status {
        Some(status) if status.success() => None,
        Some(status) => Some(ended(status)),
        None => Some("did not end, and was killed".to_owned()),
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
