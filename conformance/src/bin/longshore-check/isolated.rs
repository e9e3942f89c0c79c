//! Behaviours in processes of their own: a crash is a failure, and the next behaviour still runs.

use crate::Options;
use longshore_conformance::{Behaviour, DeviceName, Outcome, Setup, endings};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time beyond the limit of a behaviour in which its process must start and end.
const MARGIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a behaviour in a process of its own. Blocks.
pub(super) fn run(options: &Options, device: &DeviceName, behaviour: &Behaviour) -> Outcome {
    attempt(options, device, behaviour).unwrap_or_else(|error| {
        Outcome::Failed(format!("cannot run it in a process of its own: {error}"))
    })
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
    // The output of a kernel or a plugin is not part of the report.
    let log = io::stderr().as_fd().try_clone_to_owned()?;
    let mut child = command.stdin(Stdio::null()).stdout(log).spawn()?;
    let status = wait(&mut child)?;
    Ok(endings::judge(endings::read(file.path()), status))
}

/// Returns the exit status of the child, or `None` if it had to be killed.
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

/// Runs the behaviour of this process, and writes its outcome to `file`.
pub(super) fn serve(setup: &Setup, device: &str, behaviour: &str, file: &Path) -> io::Result<()> {
    let unusable = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let known = longshore_conformance::behaviours().find(|known| known.to_string() == behaviour);
    let known = known.ok_or_else(|| unusable(format!("unknown behaviour '{behaviour}'")))?;
    let parts = device.rsplit_once(':').and_then(|(name, index)| Some((name, index.parse().ok()?)));
    let (backend, index) = parts.ok_or_else(|| unusable(format!("invalid device '{device}'")))?;
    let device = DeviceName { backend: backend.to_owned(), index, name: device.to_owned() };
    endings::write(file, &setup.run(&device, known))
}
