//! A program with a time limit.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Most bytes of messages that are kept.
const MOST_MESSAGES: u64 = 64 << 10;
/// Time between two checks whether the program has ended: at first, and after a while.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LAST_LOOK: Duration = Duration::from_millis(5);

/// A program's exit status, and the beginning of its standard error.
pub(super) struct ProcessResult {
    pub(super) status: ExitStatus,
    pub(super) messages: Vec<u8>,
}

/// The reason why a program did not end by itself.
#[derive(Debug)]
pub(super) enum ProcessError {
    /// The time limit, after which the program was killed.
    TimedOut,
    /// A failure to start the program, to wait for it, or to write its messages.
    System(io::Error),
}

impl From<io::Error> for ProcessError {
    fn from(error: io::Error) -> ProcessError {
        ProcessError::System(error)
    }
}

/// Runs a program to its end, with its messages in a new file. Blocks. The remaining
/// processes of the program's group are killed.
///
/// # Errors
/// See [`ProcessError`].
pub(super) fn run(
    mut command: Command,
    messages: &Path,
    limit: Duration,
) -> Result<ProcessResult, ProcessError> {
    // A file instead of a pipe: a process that outlives the program would keep a pipe open.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(messages)?);
    // A separate process group, so that the program's own child processes can be killed with it.
    let mut running = Running { child: command.process_group(0).spawn()?, is_reaped: false };
    let deadline = Instant::now() + limit;
    let mut look = FIRST_LOOK;
    while !running.has_ended()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ProcessError::TimedOut);
        }
        thread::sleep(look.min(left));
        look = (2 * look).min(LAST_LOOK);
    }
    let status = running.reap()?;
    let mut said = Vec::new();
    File::open(messages)?.take(MOST_MESSAGES).read_to_end(&mut said)?;
    Ok(ProcessResult { status, messages: said })
}

/// A process that is killed, with its group, if it is dropped before its end.
struct Running {
    child: Child,
    is_reaped: bool,
}

impl Running {
    /// Returns whether the process has ended. The process stays unreaped, so that its ID is not
    /// reused.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            Ok(ended) => Ok(ended.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        // Killed before the wait, as the ID may be reused afterwards.
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
