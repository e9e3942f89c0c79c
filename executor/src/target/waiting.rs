//! A process that has forked the one that does the work: it waits for that one, and passes signals on to it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Resource, Rlimit, WaitId, WaitIdOptions, WaitOptions, setrlimit, waitid, waitpid,
};

/// The two sides of a fork.
pub(super) enum Forked {
    /// The calling process has this child.
    Parent(Pid),
    /// The calling process is the child.
    Child,
}

/// Forks. The system will tell the parent how the child ends, also if the program that has started this one ignores such ends.
///
/// # Errors
/// Errors of the system.
///
/// # Safety
/// The process has one thread.
pub(super) unsafe fn fork() -> io::Result<Forked> {
    // SAFETY: the default action needs nothing of this process.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: promised by the caller: the child can do all that this process can.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: what the program had chosen, which no handler can be: the process has just begun.
            unsafe { libc::signal(libc::SIGCHLD, before) };
            Ok(Forked::Child)
        }
        child => Ok(Forked::Parent(Pid::from_raw(child).expect("a process has a number"))),
    }
}

/// Waits until the child has ended. Until then the child gets the signals by which users and systems end programs.
pub(super) fn attend(child: Pid) -> ExitStatus {
    // For people who list processes.
    let _ = rustix::thread::set_name(c"longshore-wait");
    CHILD.store(child.as_raw_nonzero().get(), Ordering::Relaxed);
    let pass_on: extern "C" fn(i32) = pass_on;
    for signal in PASSED_ON {
        // SAFETY: the handler does what handlers may do.
        unsafe { libc::signal(signal, pass_on as usize) };
    }
    let ended = || -> rustix::io::Result<ExitStatus> {
        let seen = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(child), seen))?;
        // From now on its number may be another process's.
        CHILD.store(0, Ordering::Relaxed);
        let ended = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
        Ok(ExitStatus::from_raw(ended.expect("it has ended").1.as_raw()))
    };
    match ended() {
        Ok(status) => status,
        Err(error) => super::fail(1, &format!("waiting for the process that serves: {error}")),
    }
}

/// Ends this process as another one has ended. It leaves no core file: the other one has left its own.
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

/// The exit code that stands for an end: 128 and the number of the signal that was its cause.
pub(super) fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The process that gets the signals; 0 while there is none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// A child that has one of the terminal already gets it twice.
const PASSED_ON: [i32; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

extern "C" fn pass_on(signal: i32) {
    let child = CHILD.load(Ordering::Relaxed);
    if child != 0 {
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(child, signal) };
    }
}
