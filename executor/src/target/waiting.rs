//! A process that has forked the worker process: it waits for that process, and passes signals on
//! to it.
//!
//! A stop signal is passed on as `SIGSTOP`: the worker may have its own session, in which the
//! system ignores a terminal's stop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open,
    pidfd_send_signal, setrlimit, waitid, waitpid,
};

use crate::readiness::is_ready_within;

/// The two sides of a fork.
pub(super) enum ForkSide {
    /// The parent, with the number of its child.
    Parent(Pid),
    /// The child.
    Child,
}

/// Signals that a parent passes on, blocked until this is dropped. In the parent they wait until
/// [`attend`] passes them on, in the child until it can end by them. Number 1 of a PID namespace
/// would lose signals that come while it has no handler.
pub(super) struct BlockedSignals {
    /// The signals that the thread had blocked before.
    before: libc::sigset_t,
}

impl BlockedSignals {
    /// Blocks the signals in the calling thread.
    pub(super) fn hold() -> BlockedSignals {
        // SAFETY: the sets belong to this function; a zeroed set is empty.
        unsafe {
            let (mut held, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            for signal in PASSED_ON.into_iter().chain([libc::SIGTSTP]) {
                libc::sigaddset(&raw mut held, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before);
            BlockedSignals { before }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the system has filled the set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, null_mut()) };
    }
}

/// Forks. The system will report the child's end to the parent, even if the program that has
/// started this one ignores such ends. The signals are blocked in both processes.
///
/// # Errors
/// Every error of the system.
///
/// # Safety
/// The process has one thread.
pub(super) unsafe fn fork(_: &BlockedSignals) -> io::Result<ForkSide> {
    // SAFETY: the default action needs nothing of this process.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: guaranteed by the caller: the child of a process with one thread can do all that the
    // process can.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: restores the program's earlier setting, which cannot be a handler, because
            // the process has just begun.
            unsafe { libc::signal(libc::SIGCHLD, before) };
            Ok(ForkSide::Child)
        }
        child => Ok(ForkSide::Parent(Pid::from_raw(child).expect("a process has a number"))),
    }
}

/// The role of a child.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The worker process.
    Work,
    /// A process that waits for the worker, as this process does.
    Wait,
}

/// Waits for the child's end. Meanwhile the child gets the signals by which users and systems end,
/// stop and continue programs, including signals blocked since before the fork. With a controller's
/// socket, a child that does not end within [`PARTING`] after the controller's end is killed: it
/// may be stopped.
pub(super) fn attend(
    child: Pid,
    role: Role,
    controller: Option<BorrowedFd<'_>>,
    held: BlockedSignals,
) -> ExitStatus {
    // The name shows in lists of processes.
    let _ = rustix::thread::set_name(c"longshore-wait");
    CHILD.store(child.as_raw_nonzero().get(), Ordering::Relaxed);
    CHILD_WAITS.store(role == Role::Wait, Ordering::Relaxed);
    let handlers: [(&[i32], extern "C" fn(i32)); 2] =
        [(&PASSED_ON, pass_on), (&[libc::SIGTSTP], stop)];
    for (signals, handler) in handlers {
        for signal in signals {
            // SAFETY: the handler makes only calls that are permitted in handlers.
            unsafe { libc::signal(*signal, handler as usize) };
        }
    }
    drop(held);
    if let Some(controller) = controller {
        end_with(child, controller);
    }
    let ended = || -> rustix::io::Result<ExitStatus> {
        let seen = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(child), seen))?;
        // From now on the child's number may belong to another process.
        CHILD.store(0, Ordering::Relaxed);
        let ended = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
        Ok(ExitStatus::from_raw(ended.expect("it has ended").1.as_raw()))
    };
    match ended() {
        Ok(status) => status,
        Err(error) => super::fail(1, &format!("waiting for the process that serves: {error}")),
    }
}

/// Waits until the child has ended, or the controller is gone and the child was killed for it.
fn end_with(child: Pid, controller: BorrowedFd<'_>) {
    // A stopped child cannot notice the end of the controller itself.
    let Ok(process) = pidfd_open(child, PidfdFlags::empty()) else { return };
    // `RDHUP` reveals the end of the stream without a read; only the child may read.
    let gone = PollFd::from_borrowed_fd(controller, PollFlags::RDHUP);
    if is_ready_within(&mut [PollFd::new(&process, PollFlags::IN), gone], None)
        && !is_ready_within(&mut [PollFd::new(&process, PollFlags::IN)], Some(PARTING))
    {
        let _ = pidfd_send_signal(process.as_fd(), Signal::KILL);
    }
}

/// Time allowed for a child to end after its controller has gone: as long as a controller waits for
/// an executor to end.
const PARTING: Duration = Duration::from_secs(2);

/// Ends this process as another one has ended. It leaves no core file: the other process has left
/// its own.
pub(super) fn end_alike(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // SAFETY: the calls end the process; nothing of its memory is needed any more.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut set, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
            libc::raise(signal);
        }
    }
    super::leave(code_of(status))
}

/// Returns the exit code for a status: for an end by a signal, 128 plus the signal's number.
pub(super) fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The number of the process that gets the signals, or 0.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Whether that process passes signals on itself.
static CHILD_WAITS: AtomicBool = AtomicBool::new(false);

/// Signals passed on. A child in the same session also gets the terminal's signals itself, so it
/// may get one twice.
const PASSED_ON: [i32; 7] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
];

extern "C" fn pass_on(signal: i32) {
    let child = CHILD.load(Ordering::Relaxed);
    if child != 0 {
        // SAFETY: the child has not been waited for, so its number is its own.
        unsafe { libc::kill(child, signal) };
    }
}

extern "C" fn stop(signal: i32) {
    pass_on(if CHILD_WAITS.load(Ordering::Relaxed) { signal } else { libc::SIGSTOP });
    // SAFETY: the call stops this process, unless it is number 1 of a namespace.
    unsafe { libc::raise(libc::SIGSTOP) };
}
