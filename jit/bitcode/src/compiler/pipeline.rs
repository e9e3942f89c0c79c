//! Pipelines of programs.
//!
//! A pipeline ends in any case: a program that exceeds its time is killed, with all processes that
//! it has started.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::Limits;

/// A program and its arguments.
pub(super) struct Stage {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

/// Runs programs, each with its predecessor's output as input, and returns the output of the last
/// one. Blocks until they have ended. The error names a program that failed, with its status and
/// messages.
pub(super) fn run(stages: Vec<Stage>, input: File, limits: Limits) -> Result<Vec<u8>, String> {
    let mut pipeline = Pipeline::start(stages, input)?;
    pipeline.drive(limits)?;
    pipeline.into_output()
}

/// Started programs.
struct Pipeline {
    programs: Vec<Running>,
    /// Indices of failed programs, in the order in which they ended.
    failed: Vec<usize>,
    stdout: Option<ChildStdout>,
    output: Vec<u8>,
}

/// A started program. Dropping it kills the program.
struct Running {
    name: String,
    child: Child,
    /// Descriptor that becomes readable when the program ends.
    end: OwnedFd,
    status: Option<ExitStatus>,
    stderr: Option<ChildStderr>,
    messages: Vec<u8>,
}

/// An event to wait for.
#[derive(Clone, Copy)]
enum Event {
    Output,
    Message(usize),
    End(usize),
}

/// Maximum size of a program's messages in bytes; more is discarded.
const MOST_MESSAGES: usize = 16 << 10;

impl Pipeline {
    fn start(stages: Vec<Stage>, input: File) -> Result<Self, String> {
        let mut pipeline =
            Self { programs: Vec::new(), failed: Vec::new(), stdout: None, output: Vec::new() };
        let mut first = Some(input);
        for stage in stages {
            let input = match pipeline.stdout.take() {
                Some(output) => Stdio::from(output),
                None => first.take().map_or_else(Stdio::null, Stdio::from),
            };
            let (program, stdout) = Running::start(stage, input)?;
            pipeline.programs.push(program);
            pipeline.stdout = stdout;
        }
        Ok(pipeline)
    }

    /// Reads the programs' output until they have ended.
    fn drive(&mut self, limits: Limits) -> Result<(), String> {
        let deadline = Instant::now() + limits.time;
        let mut buffer = vec![0; 64 << 10];
        while self.is_under_way() {
            let rest = deadline.saturating_duration_since(Instant::now());
            let events = self.wait(rest).map_err(|error| format!("waiting: {error}"))?;
            if events.is_empty() && rest.is_zero() {
                let names = self.programs.iter().filter(|program| program.is_under_way());
                let names: Vec<&str> = names.map(|program| program.name.as_str()).collect();
                return Err(format!("{} did not end within {:?}", names.join(" | "), limits.time));
            }
            for event in events {
                self.handle(event, &mut buffer)?;
            }
            if self.output.len() > limits.output {
                return Err(format!("the output has more than {} bytes", limits.output));
            }
        }
        Ok(())
    }

    /// Returns the output, if all programs succeeded.
    fn into_output(mut self) -> Result<Vec<u8>, String> {
        // A program that fails because the other end of a pipe is gone has no message.
        let says_something = |failed: &&usize| !self.programs[**failed].messages.is_empty();
        let cause = self.failed.iter().find(says_something).or(self.failed.first());
        match cause {
            Some(failed) => Err(self.programs[*failed].failure()),
            None => Ok(std::mem::take(&mut self.output)),
        }
    }

    fn is_under_way(&self) -> bool {
        self.stdout.is_some() || self.programs.iter().any(Running::is_under_way)
    }

    /// Waits for events and returns them; none if the time runs out first.
    fn wait(&self, time: Duration) -> io::Result<Vec<Event>> {
        let output = self.stdout.iter().map(|pipe| (Event::Output, pipe.as_fd()));
        let programs = self.programs.iter().enumerate().flat_map(|(index, program)| {
            let message = program.stderr.iter().map(|pipe| pipe.as_fd());
            let end = program.status.is_none().then_some(program.end.as_fd());
            let message = message.map(move |pipe| (Event::Message(index), pipe));
            message.chain(end.map(|end| (Event::End(index), end)))
        });
        let (events, files): (Vec<Event>, Vec<_>) = output.chain(programs).unzip();
        let mut files: Vec<PollFd<'_>> =
            files.into_iter().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut files, Some(&time)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let happened =
            events.into_iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
        Ok(happened.map(|(event, _)| event).collect())
    }

    fn handle(&mut self, event: Event, buffer: &mut [u8]) -> Result<(), String> {
        match event {
            Event::Output => {
                if read_some(&mut self.stdout, buffer, &mut self.output, usize::MAX) == 0 {
                    self.stdout = None;
                }
            }
            Event::Message(index) => {
                let Running { stderr, messages, .. } = &mut self.programs[index];
                if read_some(stderr, buffer, messages, MOST_MESSAGES) == 0 {
                    *stderr = None;
                }
            }
            Event::End(index) => {
                let program = &mut self.programs[index];
                if !program.reap()? {
                    self.failed.push(index);
                }
            }
        }
        Ok(())
    }
}

impl Running {
    /// Starts a program, and returns the pipe with its output.
    fn start(stage: Stage, input: Stdio) -> Result<(Self, Option<ChildStdout>), String> {
        let name = stage.program.display().to_string();
        let mut command = Command::new(&stage.program);
        command.args(stage.arguments).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The program has a process group of its own, so that its children can be killed, too.
        let started = command.process_group(0).spawn();
        let mut child = started.map_err(|error| format!("{name} cannot be started: {error}"))?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(end) => {
                let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
                let messages = Vec::new();
                Ok((Self { name, child, end, status: None, stderr, messages }, stdout))
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("{name} cannot be waited for: {error}"))
            }
        }
    }

    fn is_under_way(&self) -> bool {
        self.status.is_none() || self.stderr.is_some()
    }

    /// Records the program's end, and returns whether it succeeded.
    fn reap(&mut self) -> Result<bool, String> {
        // The kill comes before the wait, as another process may have the number afterwards.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let status = self.child.wait();
        let status = status.map_err(|error| format!("waiting for {}: {error}", self.name))?;
        self.status = Some(status);
        Ok(status.success())
    }

    /// Describes the failure.
    fn failure(&self) -> String {
        let status = self.status.map_or_else(String::new, |status| status.to_string());
        let said = String::from_utf8_lossy(&self.messages);
        match said.trim() {
            "" => format!("{} ended with {status}, without a message", self.name),
            said => format!("{} ended with {status}:\n{said}", self.name),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.reap();
        }
    }
}

/// Reads from a pipe, and appends the data to `into`, up to a length of `most` bytes. Returns the
/// number of bytes read; 0 at the end, or after an error.
fn read_some(
    pipe: &mut Option<impl Read>,
    buffer: &mut [u8],
    into: &mut Vec<u8>,
    most: usize,
) -> usize {
    let read = pipe.as_mut().map_or(Ok(0), |pipe| pipe.read(buffer)).unwrap_or_default();
    let kept = read.min(most.saturating_sub(into.len()));
    into.extend_from_slice(&buffer[..kept]);
    read
}
