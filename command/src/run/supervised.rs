//! A run in a child process, so that an image that ends its process is never taken for a run that
//! has finished.
//!
//! The child writes its exit code to a pipe that executed programs do not inherit. If the child
//! ends without a code in the pipe, the image has ended it, whatever its exit code. The command
//! passes its signals on to the child. Under a debugger there is no child, because the debugger
//! would not see the kernel.

use crate::failure::{Exit, Failure};
use libc::c_int;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::process::ExitCode;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

/// The child's descriptor of the pipe for its exit code; -1 elsewhere.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The parent's process ID of the child; 0 elsewhere.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Signals by which users and systems end programs. A child gets the terminal's signals twice: from
/// the terminal and from the parent.
const PASSED_ON: [c_int; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Runs `run` in a child process, and returns its exit code. The process must have no other threads
/// yet.
pub(super) fn supervised(run: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    let forked = if is_traced() { None } else { fork() };
    match forked {
        Some(Side::Parent { child, pipe }) => await_end(child, pipe),
        Some(Side::Child) | None => {
            let code = match run() {
                Ok(()) => 0,
                Err(failure) => failure.print(),
            };
            finished(code);
            ExitCode::from(code)
        }
    }
}

/// Prints the failure and ends the process at once, whatever its other threads do. Nothing is
/// dropped, and no exit handler runs.
pub(super) fn end_process(failure: &Failure) -> ! {
    let code = failure.print();
    finished(code);
    // SAFETY: ends the process; nothing runs after it.
    unsafe { libc::_exit(c_int::from(code)) }
}

/// Sends the parent, if there is one, the exit code of the finished run.
fn finished(code: u8) {
    let pipe = PIPE.swap(-1, Ordering::Relaxed);
    if pipe >= 0 {
        // SAFETY: the descriptor is this module's, and the swap leaves no other user of it.
        let mut pipe = unsafe { File::from_raw_fd(pipe) };
        // A parent that is gone needs no exit code.
        let _ = pipe.write_all(&[code]);
    }
}

enum Side {
    Child,
    Parent { child: c_int, pipe: OwnedFd },
}

/// Forks. `None` on failure: the run then takes place in this process.
fn fork() -> Option<Side> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    // SAFETY: the descriptors were just made, and only this function owns them.
    let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: the call only returns the process's ID.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the process has no other thread yet.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => {
            // SAFETY: the calls change only this process. The check of the parent's ID covers a
            // parent that ended before `prctl`, which sends no signal.
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

/// Waits for the child, and returns its exit code. A signal that ended the child ends this process
/// too.
fn await_end(child: c_int, pipe: OwnedFd) -> ExitCode {
    CHILD.store(child, Ordering::Relaxed);
    let pass_on: extern "C" fn(c_int) = pass_on;
    for signal in PASSED_ON {
        // SAFETY: the handler calls only `kill`, which is async-signal-safe.
        unsafe { libc::signal(signal, pass_on as usize) };
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writing.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child {
            break;
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Failure::new(
                Exit::Runtime,
                "cannot wait for the run's process, whose result is lost",
            )
            .report();
        }
    }
    if libc::WIFSIGNALED(status) {
        end_by(libc::WTERMSIG(status));
    }
    written_code(&pipe).unwrap_or_else(|| {
        let code = libc::WEXITSTATUS(status);
        let message = format!(
            "the run did not finish: the image, or a library that it uses, ended the process with \
             exit code {code} or executed another program"
        );
        Failure::new(Exit::Runtime, message)
            .or_hint(
                "let kernels end by returning; `exit`, `_exit` and `exec` end the whole program",
            )
            .report()
    })
}

/// Returns the exit code that the child has written. Never blocks: processes started by the image
/// may hold the pipe open.
fn written_code(pipe: &OwnedFd) -> Option<ExitCode> {
    // SAFETY: the call changes only a flag of the descriptor.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let mut code = [0];
    let mut pipe = File::from(pipe.try_clone().ok()?);
    (pipe.read(&mut code).ok()? == 1).then(|| ExitCode::from(code[0]))
}

extern "C" fn pass_on(signal: c_int) {
    // SAFETY: `CHILD` keeps the child's ID until this process ends.
    unsafe { libc::kill(CHILD.load(Ordering::Relaxed), signal) };
}

fn end_by(signal: c_int) {
    // SAFETY: the calls only end the process, without a core dump.
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
