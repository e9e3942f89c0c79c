//! Behaviours of a trial in a separate process of this program, which ends with the first fatal
//! fault.
//!
//! The process creates an empty file at the beginning of a behaviour, and writes the outcome into
//! it at the end. A behaviour that ends the process has failed, and a further process runs the
//! rest.

use crate::runs::Run;
use longshore_conformance::{Outcome, Setup, endings};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The variable with the part of a trial that a process runs.
const PART: &str = "LONGSHORE_TEST_CONFORMANCE";
/// The time beyond the limit of a behaviour in which its process must start and end.
const MARGIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// The part of a trial that a process runs.
pub(crate) struct Part {
    trial: String,
    /// Index of the part in the run.
    number: usize,
    /// Index of the first behaviour.
    first: usize,
    /// The folder for files of outcomes.
    folder: PathBuf,
}

/// Runs all behaviours of a part of the run, in as many processes as necessary. Blocks.
///
/// # Errors
/// A process that cannot be started, or that ends before its first behaviour.
pub(crate) fn outcomes(trial: &str, number: usize, count: usize) -> Result<Vec<Outcome>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut outcomes = Vec::new();
    while outcomes.len() < count {
        let part = Part {
            trial: trial.to_owned(),
            number,
            first: outcomes.len(),
            folder: folder.path().to_owned(),
        };
        let status = part.run_in_process(count).map_err(|error| error.to_string())?;
        let ended = (part.first..count).map_while(|number| endings::read(&part.file(number)));
        outcomes.extend(ended);
        if outcomes.len() == count {
            // The last behaviour has ended the process.
            let last = outcomes.pop();
            outcomes.push(endings::judge(last, status));
        } else if part.file(outcomes.len()).exists() {
            outcomes.push(endings::judge(None, status));
        } else {
            return Err(format!(
                "behind {} behaviours its process ended: {status:?}",
                outcomes.len()
            ));
        }
    }
    Ok(outcomes)
}

impl Part {
    /// Returns the part of a trial that this process runs, if any.
    pub(crate) fn from_environment() -> Option<Part> {
        let value = std::env::var(PART).ok()?;
        let mut parts = value.splitn(4, '\n');
        let mut next = || parts.next().expect("written by this program");
        let mut number = || next().parse().expect("written by this program");
        let (part, first) = (number(), number());
        let (trial, folder) = (next().to_owned(), next().into());
        Some(Part { trial, number: part, first, folder })
    }

    /// Runs the behaviours of this process, in the run that contains the trial.
    pub(crate) fn serve(&self, find: impl FnOnce(&str) -> Option<Run>) -> ExitCode {
        let run = find(&self.trial).expect("a trial of this program");
        for number in self.first..run.count(self.number) {
            File::create(self.file(number)).expect("the folder is writable");
            let outcome = run.outcome(&self.trial, self.number, number);
            endings::write(&self.file(number), &outcome).expect("the folder is writable");
        }
        ExitCode::SUCCESS
    }

    /// Returns the exit status of the process, or `None` if it was killed because a behaviour did
    /// not end.
    fn run_in_process(&self, count: usize) -> io::Result<Option<ExitStatus>> {
        let mut command = Command::new(std::env::current_exe()?);
        let Part { trial, number, first, folder } = self;
        command.env(PART, format!("{number}\n{first}\n{trial}\n{}", folder.display()));
        let mut child = command.spawn()?;
        let (mut ended, mut progress) = (self.first, Instant::now());
        while progress.elapsed() < Setup::time_limit() + MARGIN {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            while ended < count && is_written(&self.file(ended)) {
                (ended, progress) = (ended + 1, Instant::now());
            }
            sleep(PAUSE);
        }
        kill(&mut child)
    }

    fn file(&self, behaviour: usize) -> PathBuf {
        self.folder.join(behaviour.to_string())
    }
}

fn is_written(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.len() > 0)
}

fn kill(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    child.kill()?;
    child.wait()?;
    Ok(None)
}
