//! The process's own namespaces: of users, of process numbers, and of System V objects.
//!
//! A process does not move into a new namespace of process numbers: its children are forked into
//! it. Process number 1 of a namespace is unsuitable for code, since signals with their default
//! action do not reach it: `abort` would not end it with `SIGABRT`. So there are three processes:
//!
//! - The started process waits, and ends as number 2 has ended.
//! - Number 1 waits for number 2. The kernel kills number 1 when the started process ends, and with
//!   number 1 every process in the namespace.
//! - Number 2 goes on.
//!
//! The started process and number 1 are outside the sandbox and run nothing else. Tracing them
//! needs the capability to trace all processes of the system. Number 2 has no capability, so it
//! cannot change them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Signal, dumpable_behavior, set_dumpable_behavior,
    set_parent_process_death_signal, setsid,
};

use super::give_up_capabilities;
use crate::protocol::NO_SANDBOX;
use crate::readiness::is_ready_within;
use crate::target::hygiene::close_all_but;
use crate::target::waiting::{BlockedSignals, ForkSide, Role, attend, fork};
use crate::target::{fail, leave};

/// The process in which [`enter`] returns.
pub(in crate::target) enum NamespaceEntry {
    /// The calling process, unchanged: the system permits no such namespaces.
    NotPermitted,
    /// The new process, which has its own namespaces and session, and no capabilities.
    Inside,
    /// The calling process, which must wait for the new one.
    Waiting(InitProcess),
}

/// Forks a process into its own namespaces. Returns in both processes.
///
/// # Errors
/// Every error of the system. The process cannot continue after one.
///
/// # Safety
/// The process has one thread.
pub(in crate::target) unsafe fn enter() -> io::Result<NamespaceEntry> {
    if !unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWIPC) {
        return Ok(NamespaceEntry::NotPermitted);
    }
    give_up_capabilities()?;
    let is_traceable = dumpable_behavior()? == DumpableBehavior::Dumpable;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let held = BlockedSignals::hold();
    // SAFETY: guaranteed by the caller.
    if let ForkSide::Parent(process) = unsafe { fork(&held)? } {
        drop(writer);
        return Ok(NamespaceEntry::Waiting(InitProcess { process, status: reader.into(), held }));
    }
    drop(reader);
    // SAFETY: a forked process has one thread.
    if let Err(error) = unsafe { be_first(writer, held) } {
        fail(NO_SANDBOX, &format!("--sandbox: number 1 of the namespace: {error}"));
    }
    if is_traceable {
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    }
    // Signals to a whole group or session cross namespaces, hence a new session.
    setsid()?;
    Ok(NamespaceEntry::Inside)
}

/// Moves the process into its own user namespace only. Returns false where that is not permitted.
/// The process must have one thread.
pub(super) fn enter_of_users() -> bool {
    unshare(libc::CLONE_NEWUSER)
}

/// Number 1 of the namespace, as seen by the process that has forked it.
pub(in crate::target) struct InitProcess {
    process: Pid,
    status: File,
    held: BlockedSignals,
}

impl InitProcess {
    /// Closes all other files of the calling process.
    pub(in crate::target) fn close_others(&self) -> io::Result<()> {
        close_all_but(self.status.as_raw_fd())
    }

    /// Waits until the namespace has no process left, and returns the exit status of number 2. With
    /// the controller's socket, number 2 is killed some time after the controller's end.
    pub(in crate::target) fn end(mut self, controller: Option<BorrowedFd<'_>>) -> ExitStatus {
        let own = attend(self.process, Role::Wait, controller, self.held);
        let mut reported = [0; 4];
        match self.status.read_exact(&mut reported) {
            Ok(()) => ExitStatus::from_raw(i32::from_le_bytes(reported)),
            // Number 1 was killed, and number 2 with it.
            Err(_) => own,
        }
    }
}

/// Returns in number 2. The calling process becomes number 1, and writes the exit status of number
/// 2.
///
/// # Errors
/// Every error of the system, in number 1.
///
/// # Safety
/// The process has one thread.
unsafe fn be_first(status: OwnedFd, held: BlockedSignals) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that has ended already sends no signal, and its number is unknown in this namespace.
    if has_no_reader(&status) {
        leave(1);
    }
    // SAFETY: guaranteed by the caller.
    if let ForkSide::Parent(second) = unsafe { fork(&held)? } {
        close_all_but(status.as_raw_fd())?;
        let ended = attend(second, Role::Work, None, held).into_raw();
        // If the write fails, the reader is gone.
        let _ = File::from(status).write_all(&ended.to_le_bytes());
        leave(0);
    }
    Ok(())
}

fn has_no_reader(pipe: &OwnedFd) -> bool {
    let mut files = [PollFd::new(pipe, PollFlags::empty())];
    is_ready_within(&mut files, Some(Duration::ZERO))
}

/// Moves the process into namespaces, including one of users, in which its user is the same.
/// Returns false where that is not permitted.
fn unshare(namespaces: i32) -> bool {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: the process has one thread, so no other thread shares its credentials.
    if unsafe { libc::unshare(namespaces) } != 0 {
        return false;
    }
    // If a write fails, the user's number reads as `nobody`; nothing else differs.
    let _ = fs::write("/proc/self/setgroups", "deny");
    let _ = fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()));
    let _ = fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()));
    true
}
