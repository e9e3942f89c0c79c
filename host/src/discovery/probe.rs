//! Trying a plugin in processes of their own first, so that one that aborts, hangs or exits while
//! it connects costs those processes and not the program.
//!
//! There are two of them. One opens and connects the plugin, destroys its platform, sends the outcome
//! over a socket ([`verdict`]) and ends with exit code 0; anything else is a crash. The other is its
//! parent and the program's child, and ends what the plugin leaves running ([`supervisor`]).

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
/// Time for the supervisor to end the probe once it is asked to.
const ENDING: Duration = Duration::from_secs(4);
/// One wait of the system takes at most this; longer limits take several.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Bytes kept of the standard error of a probe, from its end.
const MAX_SAID_BYTES: usize = 4 << 10;
const PIECE_BYTES: usize = 16 << 10;
/// Bytes that a pipe and a socket hold at most when a probe has ended.
const MAX_PIPE_BYTES: usize = 1 << 20;
const MAX_MESSAGES: usize = 4096;

/// How to try plugins in processes of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    command: PathBuf,
    arguments: Vec<OsString>,
    limit: Duration,
}

impl Probe {
    /// Tries each plugin with `command __probe FILE`, where `command` is the `longshore` command
    /// or any program that passes FILE to [`probe_main`]. It may take 10 seconds.
    ///
    /// Processes that the plugin starts end with the probe. A probe contains mistakes; it does not
    /// contain malice: the plugin has all rights of the user in it.
    pub fn new(command: impl Into<PathBuf>) -> Probe {
        let arguments = vec!["__probe".into()];
        Probe { command: command.into(), arguments, limit: DEFAULT_LIMIT }
    }

    /// Other arguments before FILE than `__probe`.
    #[must_use]
    pub fn with_arguments(
        mut self,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Probe {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Returns another time limit for each plugin.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Probe {
        self.limit = limit;
        self
    }

    /// With the `longshore` command in the folder of the running executable.
    pub(super) fn beside_executable() -> Probe {
        let executable = std::env::current_exe().unwrap_or_default();
        Probe::new(executable.with_file_name("longshore"))
    }

    /// Tries the plugin in another process, which sees the settings of `environment`.
    /// Blocks, at most for the time limit and the moment in which its processes are ended.
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
        let said = Said::new(child.stderr.take().expect("it is piped"))?;
        Ok(Running { child, process, channel, is_over: false, said, verdict: None, end: None })
    }
}

/// A supervisor, and what it and the process that tries the plugin have said so far.
struct Running {
    child: Child,
    process: Pid,
    channel: Channel,
    /// The channel has no further message.
    is_over: bool,
    said: Said,
    verdict: Option<Outcome>,
    end: Option<ExitStatus>,
}

impl Running {
    fn outcome(mut self, limit: Duration) -> Outcome {
        let listened = self.listen_until_end(limit);
        if !matches!(listened, Ok(true)) {
            self.channel.ask_for_the_end();
            // It may be stopped.
            let _ = kill_process(self.process, Signal::CONT);
            // Whether or not it does: it is killed below.
            let _ = self.listen_until_end(ENDING);
        }
        // It may have ended by itself.
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

    /// Takes what is said until the supervisor has ended. `false` if it has not within the time.
    ///
    /// Whatever the plugin leaves running may have the socket and the pipe. So their ends do not matter.
    fn listen_until_end(&mut self, limit: Duration) -> io::Result<bool> {
        // `None` for a limit beyond what the clock can count.
        let deadline = Instant::now().checked_add(limit);
        let process = match pidfd_open(self.process, PidfdFlags::empty()) {
            Ok(process) => process,
            // The program ignores its children, and so nothing is left of this one.
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

    /// Returns whether the supervisor has ended, there is a message, and there is output.
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

    /// Reads the output from before the end of the supervisor. Bounded: other writers may go on.
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

    /// Takes one message. Whether there was one.
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

/// The end of what a probe writes to its standard error.
struct Said {
    /// `None` when all writers have closed it.
    pipe: Option<ChildStderr>,
    last: Vec<u8>,
}

impl Said {
    fn new(pipe: ChildStderr) -> io::Result<Said> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Said { pipe: Some(pipe), last: Vec::new() })
    }

    /// Reads a piece, and forgets all but the end. Whether there was one. Does not block.
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

    /// Returns the last line, for a message.
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
    fn a_probing_command_that_is_none_has_crashed_with_its_last_words() {
        let probe = Probe::new("/bin/sh").with_arguments(["-c", "echo mistaken >&2; exit 3"]);
        let outcome = probe.run(Path::new("/x"), &Environment::empty());
        let Outcome::Crashed(how) = outcome else { panic!("{outcome:?}") };
        assert!(how.contains("without an answer") && how.contains("exit status: 3"), "{how}");
        assert!(how.ends_with("its last words: mistaken"), "{how}");
    }
}
