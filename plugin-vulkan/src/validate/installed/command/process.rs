//! A program that gets words on its standard input, and whose time and output are bounded.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Most bytes of output; a program that writes more is killed.
const MOST_OUTPUT: usize = 64 << 10;

/// How a program ended, and what it wrote to its standard output and error.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
}

/// Runs a program to its end. Blocks.
///
/// # Errors
/// A program that cannot be started or waited for, that takes longer, or that writes too much.
pub(super) fn run(mut command: Command, words: &[u32], limit: Duration) -> Result<Ended, String> {
    let name = command.get_program().display().to_string();
    let failed = |doing: &str, error: io::Error| format!("{doing} {name}: {error}");
    let input = input(words).map_err(|error| failed("making the input of", error))?;
    let (mut output, writer) = io::pipe().map_err(|error| failed("making a pipe for", error))?;
    let other = writer.try_clone().map_err(|error| failed("making a pipe for", error))?;
    // A group of its own, so that whatever it starts can be killed with it.
    command.stdin(input).stdout(writer).stderr(other).process_group(0);
    let started = command.spawn();
    // As long as the command is there, the pipe has a writer.
    drop(command);
    let mut running = Running::new(started.map_err(|error| failed("starting", error))?)
        .map_err(|error| failed("waiting for", error))?;
    rustix::io::ioctl_fionbio(&output, true).map_err(|error| failed("reading", error.into()))?;
    let deadline = Instant::now() + limit;
    let mut read = Vec::new();
    let (mut is_open, mut progress) = (true, Progress::Running);
    while let Progress::Running = progress {
        progress = running
            .wait(is_open.then_some(&output), deadline)
            .map_err(|error| failed("waiting for", error))?;
        is_open &= take(&mut output, &mut read).map_err(|error| failed("reading", error))?;
        if read.len() > MOST_OUTPUT {
            return Err(format!("{name} wrote more than {MOST_OUTPUT} bytes"));
        }
        if let Progress::Late = progress {
            return Err(format!("{name} did not end within {} s", limit.as_secs_f64()));
        }
    }
    let status = running.reap().map_err(|error| failed("waiting for", error))?;
    Ok(Ended { status, output: read })
}

/// A file in memory with the words in it.
fn input(words: &[u32]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("module", MemfdFlags::CLOEXEC)?);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Reads what there is now, a little more than [`MOST_OUTPUT`] at most. `false` once all writers have closed the pipe.
fn take(output: &mut PipeReader, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    while into.len() <= MOST_OUTPUT {
        match output.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(read) => into.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

enum Progress {
    Running,
    Ended,
    Late,
}

/// A process that is killed, with its group, if it is dropped before its end.
struct Running {
    child: Child,
    end: Option<OwnedFd>,
    is_reaped: bool,
}

impl Running {
    fn new(child: Child) -> io::Result<Running> {
        let mut running = Running { child, end: None, is_reaped: false };
        running.end = Some(pidfd_open(Pid::from_child(&running.child), PidfdFlags::empty())?);
        Ok(running)
    }

    /// Blocks until there is output, the process has ended, or the time is over.
    fn wait(&self, output: Option<&PipeReader>, deadline: Instant) -> io::Result<Progress> {
        let end = self.end.as_ref().expect("it is there since the process was started");
        let files = [
            Some(PollFd::new(end, PollFlags::IN)),
            output.map(|pipe| PollFd::new(pipe, PollFlags::IN)),
        ];
        let mut files: Vec<_> = files.into_iter().flatten().collect();
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).ok();
        match poll(&mut files, limit.as_ref()) {
            Ok(0) => Ok(Progress::Late),
            Ok(_) if !files[0].revents().is_empty() => Ok(Progress::Ended),
            Ok(_) | Err(Errno::INTR) => Ok(Progress::Running),
            Err(error) => Err(error.into()),
        }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        // Before it is waited for, as its number may be another's afterwards.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.is_reaped = true;
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.reap();
        }
    }
}
