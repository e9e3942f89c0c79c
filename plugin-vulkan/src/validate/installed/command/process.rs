//! A program with words on its standard input, and limits on its time and output.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes of output; a program that writes more is killed.
const MOST_OUTPUT: usize = 64 << 10;
/// Interval between two checks for the end of the program: at first, and after a while. A program
/// that ends closes its output, which is noticed at once. So the interval matters only if child
/// processes keep the output open.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LAST_LOOK: Duration = Duration::from_millis(20);

/// The result of a program: its status, and its output to standard output and error.
pub(super) struct ProcessResult {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
}

/// Runs a program to its end. Blocks.
///
/// # Errors
/// A program that cannot be started or waited for, exceeds the time limit, or writes too much.
pub(super) fn run(
    mut command: Command,
    words: &[u32],
    limit: Duration,
) -> Result<ProcessResult, String> {
    let name = command.get_program().display().to_string();
    let failed = |doing: &str, error: io::Error| format!("{doing} {name}: {error}");
    let input = input(words).map_err(|error| failed("making the input of", error))?;
    let (mut output, writer) = io::pipe().map_err(|error| failed("making a pipe for", error))?;
    let other = writer.try_clone().map_err(|error| failed("making a pipe for", error))?;
    // The command gets its own process group, so that its child processes can be killed with it.
    command.stdin(input).stdout(writer).stderr(other).process_group(0);
    let started = command.spawn();
    // The pipe has a writer until the command is dropped.
    drop(command);
    let child = started.map_err(|error| failed("starting", error))?;
    let mut running = Running { child, is_reaped: false };
    rustix::io::ioctl_fionbio(&output, true).map_err(|error| failed("reading", error.into()))?;
    let deadline = Instant::now() + limit;
    let (mut read, mut is_open, mut look) = (Vec::new(), true, FIRST_LOOK);
    loop {
        let has_ended = running.has_ended().map_err(|error| failed("waiting for", error))?;
        if is_open && !take(&mut output, &mut read).map_err(|error| failed("reading", error))? {
            (is_open, look) = (false, FIRST_LOOK);
        }
        if read.len() > MOST_OUTPUT {
            return Err(format!("{name} wrote more than {MOST_OUTPUT} bytes"));
        }
        if has_ended {
            break;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("{name} did not end within {} s", limit.as_secs_f64()));
        }
        await_output(is_open.then_some(&output), look.min(left));
        look = (2 * look).min(LAST_LOOK);
    }
    let status = running.reap().map_err(|error| failed("waiting for", error))?;
    Ok(ProcessResult { status, output: read })
}

/// Creates a file in memory that contains the words.
fn input(words: &[u32]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("module", MemfdFlags::CLOEXEC)?);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Reads the available output, slightly more than [`MOST_OUTPUT`] bytes at most. `false` after all
/// writers have closed the pipe.
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

/// Blocks until output is available, for `longest` at most.
fn await_output(output: Option<&PipeReader>, longest: Duration) {
    let Some(output) = output else { return thread::sleep(longest) };
    let mut files = [PollFd::new(output, PollFlags::IN)];
    // A failure is treated like the end of the time: the caller checks again.
    let _ = poll(&mut files, Timespec::try_from(longest).ok().as_ref());
}

/// A process that is killed, with its group, if it is dropped before its end.
struct Running {
    child: Child,
    is_reaped: bool,
}

impl Running {
    /// Returns whether the process has ended. The process is not reaped, so that its number is not
    /// reused.
    fn has_ended(&self) -> io::Result<bool> {
        // The check uses no descriptor of the process: valgrind and kernels before Linux 5.3 lack
        // `pidfd_open`.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            Ok(ended) => Ok(ended.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        // Killed before the wait, because its number may be reused afterwards.
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
