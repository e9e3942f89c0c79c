//! A process that this one has started, and its end.

use std::io;
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
use crate::rpc::{Death, Ended};

/// A child process. It is killed and waited for when this is dropped, so that nothing is left of it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    file: Arc<OwnedFd>,
    status: OnceLock<Option<ExitStatus>>,
    /// The process that serves, if that is another one: the child waits for it, and ends as it does.
    server: OnceLock<Server>,
    /// The thread that has started it, which ends after it.
    keeper: Option<JoinHandle<()>>,
}

impl Child {
    /// Takes over a child that nobody has waited for.
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(file) => {
                let (status, server) = (OnceLock::new(), OnceLock::new());
                Ok(Self { pid, file: Arc::new(file), status, server, keeper: None })
            }
            Err(error) => {
                // It is our child, which nobody has waited for, so the number is still its.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                Err(error.into())
            }
        }
    }

    /// The same, started by a thread that ends after it.
    pub(super) fn kept_by(mut self, keeper: JoinHandle<()>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Says that another process serves, which has this pidfd. Any other descriptor, and that of a process that has ended, is passed over.
    pub(super) fn serves(&self, process: OwnedFd) {
        if let Some(number) = number(&process) {
            let _ = self.server.set(Server { number, file: process });
        }
    }

    /// The number of the process that serves, to which a debugger attaches.
    pub fn id(&self) -> u32 {
        let serving = self.server.get().map_or(self.pid, |server| server.number);
        serving.as_raw_nonzero().get().unsigned_abs()
    }

    /// A file that becomes readable when it ends (a pidfd).
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn shared_file(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.file)
    }

    /// Kills it, if it has not ended. Does not block.
    pub fn kill(&self) {
        if self.status.get().is_some() {
            return;
        }
        match self.server.get() {
            Some(server) => {
                let _ = pidfd_send_signal(&server.file, Signal::KILL);
                // It waits for that one, unless it is stopped.
                let _ = pidfd_send_signal(&self.file, Signal::CONT);
            }
            None => _ = pidfd_send_signal(&self.file, Signal::KILL),
        }
    }

    /// Kills it, if it has not ended, and waits until it has.
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

    /// How it ended, if it does so within this time. Blocks for that time. `Some(None)` if something else in this process has
    /// waited for it, so that its status is not known.
    pub fn wait(&self, limit: Duration) -> Option<Option<ExitStatus>> {
        if let Some(status) = self.status.get() {
            return Some(*status);
        }
        if !self.ends_within(limit) {
            return None;
        }
        Some(*self.status.get_or_init(|| self.reap()))
    }

    /// Why a connection to it has ended, which it has cut. Blocks for a moment.
    pub(super) fn why(&self) -> Ended {
        match self.wait(DYING) {
            Some(Some(status)) => Ended::Died(Death(status)),
            _ => Ended::Cut,
        }
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let start = Instant::now();
        let serves =
            |server: &Server| !ends_within(&server.file, limit.saturating_sub(start.elapsed()));
        ends_within(&self.file, limit) && !self.server.get().is_some_and(serves)
    }

    fn reap(&self) -> Option<ExitStatus> {
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

/// A process that serves, and that another one has started.
#[derive(Debug)]
struct Server {
    file: OwnedFd,
    number: Pid,
}

/// The number of a process that has a pidfd, where `/proc` tells it.
fn number(process: &OwnedFd) -> Option<Pid> {
    let facts = format!("/proc/self/fdinfo/{}", process.as_raw_fd());
    let facts = std::fs::read_to_string(facts).ok()?;
    let number = facts.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok().filter(|number| *number > 0).and_then(Pid::from_raw)
}

/// Whether a process ends within this time. Blocks for that time.
fn ends_within(process: &OwnedFd, limit: Duration) -> bool {
    is_ready_within(&mut [PollFd::new(process, PollFlags::IN)], Some(limit))
}

/// How long a process whose end of the stream is closed may take to be gone.
const DYING: Duration = Duration::from_secs(1);

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
        if let Some(keeper) = self.keeper.take() {
            // It has nothing to say, and ends at once.
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
