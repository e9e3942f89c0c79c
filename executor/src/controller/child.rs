//! A process that this one has started, and its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::rpc::{Death, Ended};

/// A child process. It is killed and waited for when this is dropped, so that nothing is left of it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    file: Arc<OwnedFd>,
    status: OnceLock<Option<ExitStatus>>,
    /// The thread that has started it, which ends after it.
    keeper: Option<JoinHandle<()>>,
}

impl Child {
    /// Takes over a child that nobody has waited for.
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(file) => {
                Ok(Self { pid, file: Arc::new(file), status: OnceLock::new(), keeper: None })
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

    /// Its number.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
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
        if self.status.get().is_none() {
            let _ = pidfd_send_signal(&self.file, Signal::KILL);
        }
    }

    /// Kills it, if it has not ended, and waits until it has.
    pub(super) fn end(&self) {
        self.kill();
        self.status.get_or_init(|| self.reap());
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
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let timeout = Timespec {
                tv_sec: left.as_secs().min(i64::MAX as u64) as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let mut files = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut files, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(ready) => return ready > 0,
                Err(_) => return false,
            }
        }
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
