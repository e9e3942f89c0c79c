//! The process that the launcher has started, which watches the process that works.

use std::process::ExitCode;

/// Starts the process that works. Returns `None` in that process and, in this one, the exit code
/// after the end of that process.
pub(crate) fn watch() -> Option<ExitCode> {
    // SAFETY: no other thread runs yet.
    match unsafe { libc::fork() } {
        -1 => {
            eprintln!("longshore-node: no process can be started, so none watches");
            None
        }
        0 => {
            // The work ends with the watcher.
            // SAFETY: the call sets a number of this process.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            None
        }
        child => {
            // The watcher ends with the launcher's process, which may end without a signal.
            // SAFETY: as above.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            pass_signals_to(child);
            Some(wait_for(child))
        }
    }
}

static CHILD: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);

/// Passes the signals of a launcher on to the process that works.
fn pass_signals_to(child: i32) {
    extern "C" fn pass(signal: i32) {
        // SAFETY: `kill` may be called in a signal handler.
        unsafe { libc::kill(CHILD.load(std::sync::atomic::Ordering::Relaxed), signal) };
    }
    CHILD.store(child, std::sync::atomic::Ordering::Relaxed);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler only calls `kill`.
        unsafe { libc::signal(signal, pass as extern "C" fn(i32) as libc::sighandler_t) };
    }
}

/// Waits for the process that works. Its death by a signal is reported, and is no failure: the
/// program learns of it, and decides.
fn wait_for(child: i32) -> ExitCode {
    let mut status = 0;
    loop {
        // SAFETY: the output is a local variable.
        match unsafe { libc::waitpid(child, &raw mut status, 0) } {
            -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            -1 => return ExitCode::FAILURE,
            _ => break,
        }
    }
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        // The launcher's signal at the end of a job.
        if signal == libc::SIGTERM {
            return ExitCode::SUCCESS;
        }
        eprintln!("longshore-node: process {child} was killed by signal {signal}");
        // Without an end of this process the launcher does not end the others.
        return rest();
    }
    ExitCode::from(libc::WEXITSTATUS(status) as u8)
}

/// Waits for the launcher to end this process.
fn rest() -> ExitCode {
    // SAFETY: the default action of these signals ends this process.
    unsafe {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
        loop {
            libc::pause();
        }
    }
}
