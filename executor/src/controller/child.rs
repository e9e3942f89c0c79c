//! A process that the controller has started, and its end.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::readiness::is_ready_within;
use crate::rpc::{EndReason, ProcessExit};

/// A child process. Dropping it kills the process and waits for its end, so that no zombie remains.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    file: Arc<OwnedFd>,
    status: OnceLock<Option<ExitStatus>>,
    /// The process that serves, if it is not the child: the child waits for it and ends as it does.
    server: OnceLock<Server>,
    /// The pipe from which the status of the process that serves is read, if the child ends at once
    /// and that process is no child.
    report: Option<File>,
    /// The thread that has started the child; the thread ends after the child.
    keeper: Option<JoinHandle<()>>,
}

impl Child {
    /// Takes over a child that has not been waited for.
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(file) => {
                let (status, server) = (OnceLock::new(), OnceLock::new());
                let file = Arc::new(file);
                Ok(Self { pid, file, status, server, report: None, keeper: None })
            }
            Err(error) => {
                // The number still names our child, since no caller has waited for it.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                Err(error.into())
            }
        }
    }

    /// Records the thread that has started the child and ends after it.
    pub(super) fn kept_by(mut self, keeper: JoinHandle<()>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Waits for the child's end, which comes at once. The status of the process that serves will
    /// be in a pipe.
    pub(super) fn leaves(mut self, report: OwnedFd) -> Self {
        match self.reap() {
            Some(status) if !status.success() => _ = self.status.set(Some(status)),
            _ => self.report = Some(File::from(report)),
        }
        self
    }

    /// Records that the process of this pidfd serves in place of the child. Ignores any other
    /// descriptor, and the pidfd of a process that has ended.
    pub(super) fn serves(&self, process: OwnedFd) {
        if let Some(number) = number(&process) {
            let _ = self.server.set(Server { number, file: process });
        }
    }

    /// Returns the number of the process that serves. A debugger attaches to this process.
    pub fn id(&self) -> u32 {
        let serving = self.server.get().map_or(self.pid, |server| server.number);
        serving.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns the child's pidfd, a file that becomes readable when the child ends.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn shared_file(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.file)
    }

    /// Kills the process if it has not ended. Does not block.
    pub fn kill(&self) {
        if self.status.get().is_some() {
            return;
        }
        match self.server.get() {
            Some(server) => {
                let _ = pidfd_send_signal(&server.file, Signal::KILL);
                // The child waits for the server, unless the child is stopped.
                let _ = pidfd_send_signal(&self.file, Signal::CONT);
            }
            None => _ = pidfd_send_signal(&self.file, Signal::KILL),
        }
    }

    /// Kills the process if it has not ended, and waits for its end.
    pub(super) fn end(&self) {
        self.kill();
        self.status.get_or_init(|| {
            if let Some(server) = self.server.get() {
                while !ends_within(&server.file, Duration::from_secs(1000)) {}
                if !ends_within(&self.file, DYING) {
                    let _ = pidfd_send_signal(&self.file, Signal::KILL);
                }
            }
            self.reap()
        });
    }

    /// Waits up to `limit` for the process's end and returns its status. Blocks for that time.
    /// `Some(None)` if other code in this process has waited for the child, so that its status is
    /// unknown.
    pub fn wait(&self, limit: Duration) -> Option<Option<ExitStatus>> {
        if let Some(status) = self.status.get() {
            return Some(*status);
        }
        if !self.ends_within(limit) {
            return None;
        }
        Some(*self.status.get_or_init(|| self.reap()))
    }

    /// Returns the reason for the end of a connection that the child has cut. Blocks for up to
    /// [`DYING`].
    pub(super) fn why(&self) -> EndReason {
        match self.wait(DYING) {
            Some(Some(status)) => EndReason::Died(ProcessExit(status)),
            _ => EndReason::Cut,
        }
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let start = Instant::now();
        let serves =
            |server: &Server| !ends_within(&server.file, limit.saturating_sub(start.elapsed()));
        ends_within(&self.file, limit) && !self.server.get().is_some_and(serves)
    }

    fn reap(&self) -> Option<ExitStatus> {
        if let Some(mut report) = self.report.as_ref() {
            let mut status = [0; 4];
            let is_there = is_ready_within(&mut [PollFd::new(report, PollFlags::IN)], Some(DYING));
            if !is_there {
                return None;
            }
            report.read_exact(&mut status).ok()?;
            return Some(ExitStatus::from_raw(i32::from_le_bytes(status)));
        }
        loop {
            match waitid(WaitId::PidFd(self.file.as_fd()), WaitIdOptions::EXITED) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(Some(status)) => {
                    let code = status.exit_status().map(|code| code << 8);
                    let core = if status.dumped() { 0x80 } else { 0 };
                    let signal = status.terminating_signal().map(|signal| signal | core);
                    return Some(ExitStatus::from_raw(code.or(signal)?));
                }
                // Another part of the program waits for all children, or ignores them.
                _ => return None,
            }
        }
    }
}

/// A server process, started by the child.
#[derive(Debug)]
struct Server {
    file: OwnedFd,
    number: Pid,
}

/// Returns the number of a pidfd's process, from `/proc`; `None` if `/proc` does not give it.
fn number(process: &OwnedFd) -> Option<Pid> {
    let facts = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let facts = std::fs::read_to_string(facts).ok()?;
    let number = facts.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok().filter(|number| *number > 0).and_then(Pid::from_raw)
}

/// Returns whether a process ends within `limit`. Blocks for that time.
fn ends_within(process: &OwnedFd, limit: Duration) -> bool {
    is_ready_within(&mut [PollFd::new(process, PollFlags::IN)], Some(limit))
}

/// Time allowed for a process to end after it has closed its end of the stream.
const DYING: Duration = Duration::from_secs(1);

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
        if let Some(keeper) = self.keeper.take() {
            // The thread returns no result and ends at once.
            let _ = keeper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::zombie_processes, reason = "whatever gets the number waits for it")]
    fn sleeper() -> Pid {
        let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        Pid::from_raw(child.id().cast_signed()).unwrap()
    }

    #[test]
    fn a_child_has_not_ended_while_the_process_that_serves_runs() {
        const MOMENT: Duration = Duration::from_millis(50);
        let child = Child::new(sleeper()).unwrap();
        let server = Child::new(sleeper()).unwrap();
        child.serves(server.file.try_clone().unwrap());
        assert_eq!(child.id(), server.id());
        pidfd_send_signal(&child.file, Signal::KILL).unwrap();
        assert_eq!(child.wait(MOMENT), None);
        server.end();
        let ended = child.wait(Duration::from_secs(60)).flatten().unwrap();
        assert_eq!(ended.signal(), Some(libc::SIGKILL));
    }
}
