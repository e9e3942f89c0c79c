//! Namespaces of the process's own: of users, of process numbers, and of System V's objects.
//!
//! A process does not move into a namespace of process numbers: its children are forked into it. Number 1 of a namespace is no process
//! to run code in, since signals with their default action do not reach it: `abort` would not end it with `SIGABRT`. So there are three
//! processes:
//!
//! - the one that was started waits, and ends as number 2 has ended;
//! - number 1 waits for number 2. The kernel kills number 1 when the one that was started ends, and with number 1 all in the namespace;
//! - number 2 goes on.
//!
//! The first two are outside of the sandbox and run nothing else. They cannot be traced without the capability to trace all processes of
//! the system, so number 2, which has none, cannot change them.

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
use crate::target::waiting::{Forked, HeldSignals, Role, attend, fork};
use crate::target::{fail, leave};

/// Which process has returned from [`enter`].
pub(in crate::target) enum Entered {
    /// The calling one, as it was: the system permits no such namespaces.
    NotPermitted,
    /// A new one, which has namespaces of its own, a session of its own, and no capabilities.
    Inside,
    /// The calling one, which has to wait for the new one.
    Waiting(First),
}

/// Forks a process into namespaces of its own. Returns in both.
///
/// # Errors
/// Errors of the system, on which the process cannot go on.
///
/// # Safety
/// The process has one thread.
pub(in crate::target) unsafe fn enter() -> io::Result<Entered> {
    if !unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWIPC) {
        return Ok(Entered::NotPermitted);
    }
    give_up_capabilities()?;
    let is_traceable = dumpable_behavior()? == DumpableBehavior::Dumpable;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let held = HeldSignals::hold();
    // SAFETY: promised by the caller.
    if let Forked::Parent(process) = unsafe { fork(&held)? } {
        drop(writer);
        return Ok(Entered::Waiting(First { process, status: reader.into(), held }));
    }
    drop(reader);
    // SAFETY: a forked process has one thread.
    if let Err(error) = unsafe { be_first(writer, held) } {
        fail(NO_SANDBOX, &format!("--sandbox: number 1 of the namespace: {error}"));
    }
    if is_traceable {
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    }
    // Signals to all of a group or session reach across namespaces.
    setsid()?;
    Ok(Entered::Inside)
}

/// Moves the process into a user namespace of its own and nothing else. `false` where that is not permitted. The process has one thread.
pub(super) fn enter_of_users() -> bool {
    unshare(libc::CLONE_NEWUSER)
}

/// Number 1 of the namespace, as the process sees it that has forked it.
pub(in crate::target) struct First {
    process: Pid,
    status: File,
    held: HeldSignals,
}

impl First {
    /// Closes all other files of the calling process.
    pub(in crate::target) fn close_others(&self) -> io::Result<()> {
        close_all_but(self.status.as_raw_fd())
    }

    /// Waits until nothing is left in the namespace. How number 2 has ended, be it that it was killed some time after the end of
    /// the controller, if that has this socket.
    pub(in crate::target) fn end(mut self, controller: Option<BorrowedFd<'_>>) -> ExitStatus {
        let own = attend(self.process, Role::Wait, controller, self.held);
        let mut told = [0; 4];
        match self.status.read_exact(&mut told) {
            Ok(()) => ExitStatus::from_raw(i32::from_le_bytes(told)),
            // It was killed, and number 2 with it.
            Err(_) => own,
        }
    }
}

/// Returns in number 2. The calling process is number 1, and writes how number 2 has ended.
///
/// # Errors
/// Errors of the system, in number 1.
///
/// # Safety
/// The process has one thread.
unsafe fn be_first(status: OwnedFd, held: HeldSignals) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that has ended already sends no signal, and its number is not known here.
    if has_no_reader(&status) {
        leave(1);
    }
    // SAFETY: promised by the caller.
    if let Forked::Parent(second) = unsafe { fork(&held)? } {
        close_all_but(status.as_raw_fd())?;
        let ended = attend(second, Role::Work, None, held).into_raw();
        // The reader waits for this.
        let _ = File::from(status).write_all(&ended.to_le_bytes());
        leave(0);
    }
    Ok(())
}

fn has_no_reader(pipe: &OwnedFd) -> bool {
    let mut files = [PollFd::new(pipe, PollFlags::empty())];
    is_ready_within(&mut files, Some(Duration::ZERO))
}

/// Moves the process into namespaces of which one is of users, in which its user is the same. `false` where that is not permitted.
fn unshare(namespaces: i32) -> bool {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: the process has one thread, which nothing else shares its credentials with.
    if unsafe { libc::unshare(namespaces) } != 0 {
        return false;
    }
    // Where one of these fails, the user's number reads as that of nobody, and nothing else is different.
    let _ = fs::write("/proc/self/setgroups", "deny");
    let _ = fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()));
    let _ = fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()));
    true
}
