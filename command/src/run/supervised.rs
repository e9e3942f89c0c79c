//! A run in a child process, so that an image that ends its process is never taken for a run that has finished.
//!
//! The child says with which exit code it ends, on a pipe that programs which it executes do not inherit. A child that
//! ends without a word was ended by the image, by whatever code. Signals that the command gets are passed on. Under a
//! debugger there is no child: it would lose the kernel.

use crate::failure::{Exit, Failure};
use libc::c_int;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::process::ExitCode;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

/// In the child: the descriptor on which it says how it ends; -1 elsewhere.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// In the parent: the child.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Signals by which users and systems end programs. A child that has one from the terminal already gets it twice.
const PASSED_ON: [c_int; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Does the run in a child process, before the process has other threads, and answers its exit code.
pub(super) fn supervised(run: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    let forked = if is_traced() { None } else { fork() };
    match forked {
        Some(Side::Parent { child, pipe }) => await_end(child, pipe),
        Some(Side::Child) | None => {
            let code = match run() {
                Ok(()) => 0,
                Err(failure) => failure.tell(),
            };
            finished(code);
            ExitCode::from(code)
        }
    }
}

/// Tells the user of the failure and ends the process at once, whatever its other threads do: nothing is
/// dropped, no exit handler runs.
pub(super) fn end_process(failure: &Failure) -> ! {
    let code = failure.tell();
    finished(code);
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(c_int::from(code)) }
}

/// Tells the parent, if there is one, that the run ends with this exit code.
fn finished(code: u8) {
    let pipe = PIPE.swap(-1, Ordering::Relaxed);
    if pipe >= 0 {
        // SAFETY: the descriptor is this module's, and nobody has it from now on.
        let mut pipe = unsafe { File::from_raw_fd(pipe) };
        // A parent that is gone needs no answer.
        let _ = pipe.write_all(&[code]);
    }
}

enum Side {
    Child,
    Parent { child: c_int, pipe: OwnedFd },
}

/// `None` if there can be no child: then the run is this process's.
fn fork() -> Option<Side> {
    let mut ends = [0; 2];
    // SAFETY: a place for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    // SAFETY: they were just made, and are owned here alone.
    let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: asks for the process's own number.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the process has no other thread yet.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => {
            // SAFETY: the calls change this process only. A parent that is gone already sends no signal.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(Exit::Runtime as c_int);
                }
            }
            PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
            Some(Side::Child)
        }
        child => Some(Side::Parent { child, pipe: reader }),
    }
}

/// Waits for the child, and answers its exit code; ends by the same signal as the child.
fn await_end(child: c_int, pipe: OwnedFd) -> ExitCode {
    CHILD.store(child, Ordering::Relaxed);
    let pass_on: extern "C" fn(c_int) = pass_on;
    for signal in PASSED_ON {
        // SAFETY: the handler does what handlers may do.
        unsafe { libc::signal(signal, pass_on as usize) };
    }
    let mut status = 0;
    loop {
        // SAFETY: a place for the status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child {
            break;
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Failure::new(Exit::Runtime, "the run's process is lost").report();
        }
    }
    if libc::WIFSIGNALED(status) {
        end_by(libc::WTERMSIG(status));
    }
    said(&pipe).unwrap_or_else(|| {
        let code = libc::WEXITSTATUS(status);
        let message = format!(
            "the run did not finish: the image, or a library that it uses, ended the process with \
             exit code {code} or executed another program"
        );
        Failure::new(Exit::Runtime, message)
            .or_hint("kernels return to end; `exit`, `_exit` and `exec` end the whole program")
            .report()
    })
}

/// Returns the code that the child has said. Does not wait: processes that the image has started may have the pipe.
fn said(pipe: &OwnedFd) -> Option<ExitCode> {
    // SAFETY: changes how the descriptor is read.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let mut code = [0];
    let mut pipe = File::from(pipe.try_clone().ok()?);
    (pipe.read(&mut code).ok()? == 1).then(|| ExitCode::from(code[0]))
}

extern "C" fn pass_on(signal: c_int) {
    // SAFETY: the child is not forgotten before this process ends.
    unsafe { libc::kill(CHILD.load(Ordering::Relaxed), signal) };
}

fn end_by(signal: c_int) {
    // SAFETY: the calls end the process, whose memory is of no interest to anybody.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
        libc::raise(signal);
    }
}

/// Returns whether a debugger traces this process.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
