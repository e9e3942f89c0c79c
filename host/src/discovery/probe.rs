//! Probing of plugins in separate processes. A plugin that aborts, hangs or exits while connecting
//! ends these processes instead of the program.
//!
//! A probe has two processes. The probing process loads and connects the plugin, destroys its
//! platform, sends the outcome over a socket ([`verdict`]) and exits with code 0; any other end is
//! a crash. The supervisor is the parent of the probing process and a child of the program. It ends
//! all processes that the plugin leaves running ([`supervisor`]).

mod supervisor;
mod verdict;

pub use supervisor::probe_main;

use super::report::Outcome;
use crate::environment::Environment;
use longshore_plugin_api::{Error, ErrorCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use verdict::{Channel, Message, Received};

const DEFAULT_LIMIT: Duration = Duration::from_secs(10);
/// Time for the supervisor to end the probe after the program's request.
const ENDING: Duration = Duration::from_secs(4);
/// Longest single wait; longer limits take several waits.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Number of bytes kept from the end of a probe's standard error.
const MAX_SAID_BYTES: usize = 4 << 10;
const PIECE_BYTES: usize = 16 << 10;
/// Most bytes that are read from the pipe of standard error after a probe has ended: a pipe holds
/// no more.
const MAX_PIPE_BYTES: usize = 1 << 20;
/// Most messages that are read from the channel after a probe has ended: more than a socket holds.
const MAX_MESSAGES: usize = 4096;

/// A way of probing plugins in separate processes, for
/// [`HostBuilder::with_probe`](crate::HostBuilder::with_probe).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    command: PathBuf,
    arguments: Vec<OsString>,
    limit: Duration,
}

impl Probe {
    /// Creates a probe that runs `command __probe FILE` for each plugin. `command` is the
    /// `longshore` command, or any program that passes FILE to [`probe_main`]. The time limit for
    /// each plugin is 10 seconds.
    ///
    /// Processes that the plugin starts are killed at the end of the probe. A probe protects the
    /// program from a faulty plugin, not from a malicious one: the plugin has all rights of the
    /// user in the probe.
    pub fn new(command: impl Into<PathBuf>) -> Probe {
        let arguments = vec!["__probe".into()];
        Probe { command: command.into(), arguments, limit: DEFAULT_LIMIT }
    }

    /// Returns the probe with these arguments before FILE, instead of `__probe`.
    #[must_use]
    pub fn with_arguments(
        mut self,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Probe {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the probe with this time limit for each plugin, instead of 10 seconds.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Probe {
        self.limit = limit;
        self
    }

    /// Creates a probe with the `longshore` command in the folder of the running executable.
    pub(super) fn beside_executable() -> Probe {
        let executable = std::env::current_exe().unwrap_or_default();
        Probe::new(executable.with_file_name("longshore"))
    }

    /// Probes the plugin in another process, which gets the variables of `environment`. Blocks, at
    /// most for the time limit and the time to end the probe's processes.
    pub(super) fn run(&self, path: &Path, environment: &Environment) -> Outcome {
        match self.start(path, environment) {
            Ok(running) => running.outcome(self.limit),
            Err(error) => {
                let (command, path) = (self.command.display(), path.display());
                let message = format!("probing '{path}' with '{command}': {error}");
                let failed = Error::new(ErrorCode::HostToolNotFound, message);
                Outcome::Failed(failed.with_source(error))
            }
        }
    }

    fn start(&self, path: &Path, environment: &Environment) -> io::Result<Running> {
        let (channel, theirs) = Channel::pair()?;
        let mut command = Command::new(&self.command);
        environment.apply_to(&mut command);
        command.args(&self.arguments).arg(path).process_group(0);
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let process = process.expect("a process has a number");
        let said = StderrTail::new(child.stderr.take().expect("it is piped"))?;
        Ok(Running { child, process, channel, is_over: false, said, verdict: None, end: None })
    }
}

/// A supervisor with its channel, and the messages and the output of the probe so far.
struct Running {
    child: Child,
    process: Pid,
    channel: Channel,
    /// Whether the channel is closed.
    is_over: bool,
    said: StderrTail,
    verdict: Option<Outcome>,
    end: Option<ExitStatus>,
}

impl Running {
    fn outcome(mut self, limit: Duration) -> Outcome {
        let listened = self.listen_until_end(limit);
        if !matches!(listened, Ok(true)) {
            self.channel.request_end();
            // The supervisor may be stopped.
            let _ = kill_process(self.process, Signal::CONT);
            // If the supervisor does not end in time, it is killed below.
            let _ = self.listen_until_end(ENDING);
        }
        // An error means that the group has ended already.
        let _ = kill_process_group(self.process, Signal::KILL);
        let supervisor = self.child.wait();
        let how = match (listened, self.end) {
            (Err(error), _) => {
                let message = format!("waiting for the probing process: {error}");
                let failed = Error::new(ErrorCode::HostIo, message);
                return Outcome::Failed(failed.with_source(error));
            }
            (Ok(false), _) => format!("it did not answer within {limit:?} and was killed"),
            (Ok(true), Some(status)) => match self.verdict.take().filter(|_| status.success()) {
                Some(outcome) => return outcome,
                None => describe(status),
            },
            (Ok(true), None) => match supervisor {
                Ok(status) => format!("the probing process ended without an answer, with {status}"),
                Err(_) => "the probing process ended without an answer".to_owned(),
            },
        };
        Outcome::Crashed(how + &self.said.last_words())
    }

    /// Reads messages and output until the supervisor has ended. Returns false if it has not ended
    /// within `limit`.
    ///
    /// Processes that the plugin leaves running may keep the socket and the pipe open. So only the
    /// end of the supervisor counts, not the ends of socket and pipe.
    fn listen_until_end(&mut self, limit: Duration) -> io::Result<bool> {
        // `None` for a limit beyond the clock's range.
        let deadline = Instant::now().checked_add(limit);
        let process = match pidfd_open(self.process, PidfdFlags::empty()) {
            Ok(process) => process,
            // The program ignores `SIGCHLD`, so the ended supervisor is already reaped.
            Err(Errno::SRCH) => {
                self.take_the_rest();
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        loop {
            let left = deadline.map_or(LONGEST_WAIT, |deadline| {
                deadline.saturating_duration_since(Instant::now()).min(LONGEST_WAIT)
            });
            let [has_ended, has_message, has_output] = self.wait(process.as_fd(), left)?;
            if has_ended {
                self.take_the_rest();
                return Ok(true);
            }
            if has_message {
                self.hear();
            }
            if has_output {
                self.said.read();
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Waits for at most `left`. Returns whether the supervisor has ended, whether there is a
    /// message, and whether there is output.
    fn wait(&self, process: BorrowedFd<'_>, left: Duration) -> io::Result<[bool; 3]> {
        let channel = if self.is_over { process } else { self.channel.as_fd() };
        let pipe = self.said.pipe.as_ref().map_or(process, AsFd::as_fd);
        let files = [process, channel, pipe];
        let mut files = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut files, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(files.map(|file| !file.revents().is_empty())),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the messages and the output written before the end of the supervisor. Bounded, as
    /// other writers may still write.
    fn take_the_rest(&mut self) {
        for _ in 0..MAX_MESSAGES {
            if !self.hear() {
                break;
            }
        }
        for _ in 0..MAX_PIPE_BYTES / PIECE_BYTES {
            if !self.said.read() {
                break;
            }
        }
    }

    /// Receives one message, and returns whether there was one. Does not block.
    fn hear(&mut self) -> bool {
        match self.channel.receive() {
            Received::Message(Message::Verdict(outcome)) => self.verdict = Some(outcome),
            Received::Message(Message::End(status)) => self.end = Some(status),
            Received::Noise => {}
            Received::Nothing => return false,
            Received::End => {
                self.is_over = true;
                return false;
            }
        }
        true
    }
}

/// The end of a probe's output on standard error.
struct StderrTail {
    /// The pipe; `None` once all writers have closed it.
    pipe: Option<ChildStderr>,
    last: Vec<u8>,
}

impl StderrTail {
    fn new(pipe: ChildStderr) -> io::Result<StderrTail> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(StderrTail { pipe: Some(pipe), last: Vec::new() })
    }

    /// Reads a piece of output and keeps only the end of all output. Returns whether there was
    /// output. Does not block.
    fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut piece = [0; PIECE_BYTES];
        match pipe.read(&mut piece) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                self.last.extend_from_slice(&piece[..count]);
                let excess = self.last.len().saturating_sub(MAX_SAID_BYTES);
                self.last.drain(..excess);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    /// Returns the last line of output, for a message.
    fn last_words(&self) -> String {
        let said = String::from_utf8_lossy(&self.last);
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        last.map(|line| format!("; its last words: {line}")).unwrap_or_default()
    }
}

fn describe(status: ExitStatus) -> String {
    match status.success() {
        true => "it ended the process while connecting".to_owned(),
        false => format!("it ended the process with {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probing_command_that_is_missing_is_named() {
        let outcome = Probe::new("/nowhere/longshore").run(Path::new("/x"), &Environment::empty());
        let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
        assert_eq!(error.code(), ErrorCode::HostToolNotFound);
        assert!(error.message().contains("'/nowhere/longshore'"), "{error}");
    }

    #[test]
    fn an_invalid_probing_command_has_crashed_with_its_last_output() {
        let probe = Probe::new("/bin/sh").with_arguments(["-c", "echo mistaken >&2; exit 3"]);
        let outcome = probe.run(Path::new("/x"), &Environment::empty());
        let Outcome::Crashed(how) = outcome else { panic!("{outcome:?}") };
        assert!(how.contains("without an answer") && how.contains("exit status: 3"), "{how}");
        assert!(how.ends_with("its last words: mistaken"), "{how}");
    }
}
