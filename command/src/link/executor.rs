//! The executor, another process that runs the program (`--executor`).

use crate::failure::{Exit, Failure};
use clap::Args;
use longshore_executor::controller::{ExecutorProcess, ProcessError, Spawn};
use longshore_executor::remote::Key;
use longshore_executor::rpc::{EndReason, Options};
use longshore_jitlink::Architecture;
use longshore_jitlink::process::ProcessCalls;
use std::convert::Infallible;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The options for a program that runs in another process.
#[derive(Args)]
#[command(next_help_heading = "Running the program in another process")]
pub(super) struct Executor {
    /// Run the program in an executor: the installation's, the one at a path, or a listening one at
    /// ADDRESS:PORT
    #[arg(long, value_name = "EXECUTOR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    executor: Option<String>,
    /// File with the key of a listening executor, 64 hexadecimal digits
    #[arg(long, value_name = "FILE", requires = "executor")]
    executor_key: Option<PathBuf>,
    /// Send everything to the executor in messages, without shared memory
    #[arg(long, requires = "executor")]
    no_shared_memory: bool,
}

impl Executor {
    pub(super) fn is_wanted(&self) -> bool {
        self.executor.is_some()
    }

    /// Starts the executor if an option requests it. Fails if its architecture is not the objects';
    /// `first` is the name of the first object.
    pub(super) fn start(
        &self,
        architecture: Architecture,
        first: &str,
    ) -> Result<Option<Arc<ExecutorProcess>>, Failure> {
        let Some(name) = &self.executor else { return Ok(None) };
        let process = match &self.executor_key {
            Some(key) => self.connect(name, key)?,
            None => self.spawn(name)?,
        };
        let theirs = process.facts().architecture;
        if theirs != architecture {
            let message = format!(
                "'{first}' is for {}, but the executor runs code for {}",
                architecture.triple(),
                theirs.triple()
            );
            return Err(Failure::new(Exit::Runtime, message)
                .or_hint("name an executor for the objects' architecture with --executor=PATH"));
        }
        Ok(Some(process))
    }

    fn spawn(&self, name: &str) -> Result<Arc<ExecutorProcess>, Failure> {
        let path = match name {
            "" => installed().map_err(|problem| {
                Failure::new(Exit::Runtime, problem)
                    .or_hint("name a longshore-executor of this release with --executor=PATH")
            })?,
            name => PathBuf::from(name),
        };
        let spawn = Spawn::new(path).with_shared_memory(!self.no_shared_memory);
        ExecutorProcess::spawn(&spawn).map_err(failure)
    }

    fn connect(&self, address: &str, key: &Path) -> Result<Arc<ExecutorProcess>, Failure> {
        let key = Key::read(key).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        ExecutorProcess::connect(address, &key, Options::default()).map_err(failure)
    }
}

/// Ends this process as the program in the executor ended: returns its exit code, or raises its
/// signal.
pub(super) fn end_as(
    executor: &ExecutorProcess,
    ended: Result<Infallible, Failure>,
) -> Result<ExitCode, Failure> {
    let Err(failure) = ended;
    let Some(EndReason::Died(death)) = executor.peer().ended() else { return Err(failure) };
    if let Some(signal) = death.0.signal() {
        // SAFETY: the default action calls no handler, and raising the signal ends this process
        // like the executor.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return Err(failure);
    }
    let code = death.0.code().and_then(|code| u8::try_from(code).ok());
    code.map(ExitCode::from).ok_or(failure)
}

/// Returns the executor of this command's installation: beside the command, as in a build folder,
/// or in `libexec`. The error names the places.
pub(super) fn installed() -> Result<PathBuf, String> {
    const NAME: &str = "longshore-executor";
    let here = std::env::current_exe()
        .map_err(|error| format!("cannot find this command's own file: {error}"))?;
    let above = here.parent().and_then(Path::parent);
    let libexec = above.map(|above| above.join("libexec/longshore").join(NAME));
    let places: Vec<PathBuf> = [here.with_file_name(NAME)].into_iter().chain(libexec).collect();
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        let names: Vec<String> =
            places.iter().map(|place| format!("'{}'", place.display())).collect();
        format!("no executor is installed; looked for {}", names.join(" and "))
    })
}

fn failure(error: ProcessError) -> Failure {
    let failure = Failure::new(Exit::Runtime, error.to_string());
    match error {
        ProcessError::Spawn(_) => {
            failure.or_hint("name a longshore-executor of this release with --executor=PATH")
        }
        _ => failure,
    }
}
