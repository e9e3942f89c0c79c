//! Behaviours and requests in processes of their own: a crash is a failure, and the next behaviour
//! still runs.

use crate::Options;
use longshore_conformance::certificate::DeviceAnswers;
use longshore_conformance::{Behaviour, DeviceName, Outcome, Setup, amount, endings};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

const NO_PROCESS: &str = "cannot run it in a process of its own";
/// The time beyond the limit of a behaviour in which its process must start and end.
const MARGIN: Duration = Duration::from_secs(30);
/// The time for the answers of a device, in which its process opens the device.
const ANSWERS: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a behaviour in a process of its own. Blocks.
pub(super) fn run(options: &Options, device: &DeviceName, behaviour: &Behaviour) -> Outcome {
    let behaviour = behaviour.to_string();
    let limit = Setup::time_limit() + MARGIN;
    match child(options, device, &["--behaviour", &behaviour], limit) {
        Ok((file, status)) => endings::judge(endings::read(file.path()), status),
        Err(error) => Outcome::Failed(format!("{NO_PROCESS}: {error}")),
    }
}

/// Asks a device for its part of a report in a process of its own. Blocks.
pub(super) fn ask(options: &Options, device: &DeviceName) -> DeviceAnswers {
    match child(options, device, &[], amount::limit(ANSWERS)) {
        Ok((file, status)) => DeviceAnswers::read(file.path(), status),
        Err(error) => DeviceAnswers::unknown(format!("{NO_PROCESS}: {error}")),
    }
}

/// Runs a process for a device to its end. Returns its file and its exit status, which is `None`
/// if it had to be killed.
fn child(
    options: &Options,
    device: &DeviceName,
    task: &[&str],
    limit: Duration,
) -> io::Result<(NamedTempFile, Option<ExitStatus>)> {
    let file = NamedTempFile::new()?;
    let mut command = Command::new(std::env::current_exe()?);
    for plugin in &options.plugin {
        command.arg("--plugin").arg(plugin);
    }
    if let Some(fixtures) = &options.fixtures {
        command.arg("--fixtures").arg(fixtures);
    }
    command.args(["--device", &format!("{}:{}", device.backend, device.index)]);
    command.args(task).arg("--outcome").arg(file.path());
    // The output of a kernel or a plugin is not part of the report.
    let log = io::stderr().as_fd().try_clone_to_owned()?;
    let mut child = command.stdin(Stdio::null()).stdout(log).spawn()?;
    let status = wait(&mut child, limit)?;
    Ok((file, status))
}

/// Returns the exit status of the child, or `None` if it had to be killed.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
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

/// Performs the task of this process, and writes its result to `file`: a behaviour, or without one
/// the answers of the device.
pub(super) fn serve(
    setup: &Setup,
    device: &str,
    behaviour: Option<&str>,
    file: &Path,
) -> io::Result<()> {
    let unusable = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let parts = device.rsplit_once(':').and_then(|(name, index)| Some((name, index.parse().ok()?)));
    let (backend, index) = parts.ok_or_else(|| unusable(format!("invalid device '{device}'")))?;
    let device = DeviceName::for_index(backend, index);
    let Some(behaviour) = behaviour else {
        return DeviceAnswers::write(setup, &device, file);
    };
    let known = longshore_conformance::behaviours().find(|known| known.to_string() == behaviour);
    let known = known.ok_or_else(|| unusable(format!("unknown behaviour '{behaviour}'")))?;
    endings::write(file, &setup.run(&device, known))
}
