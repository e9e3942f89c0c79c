//! The process that the launcher has started, which watches the process that works.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use longshore_mpi_backend::roles::Launched;

/// Time for the node to end after its program.
const ENDING: Duration = Duration::from_secs(4);
/// Time between looks at the program.
const LOOK: Duration = Duration::from_millis(250);
/// Looks for the program, until it must be on another machine, or have ended before the first.
const LOOKS: u32 = 12;

/// The process that works.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Whether the program has ended, and the node has not.
static IS_ABANDONED: AtomicBool = AtomicBool::new(false);

/// Starts the process that works. Returns `None` in that process and, in this one, the exit code
/// after the end of that process. `is_spawned` if the program itself has started the node.
pub(crate) fn watch(is_spawned: bool) -> Option<ExitCode> {
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
            if !is_spawned {
                let program = std::thread::Builder::new().name("longshore-program".to_owned());
                // Without this thread, the launcher alone ends an abandoned node.
                let _ = program.spawn(move || watch_program(child));
            }
            Some(wait_for(child))
        }
    }
}

/// Passes the signals of a launcher on to the process that works.
fn pass_signals_to(child: i32) {
    extern "C" fn pass(signal: i32) {
        // SAFETY: `kill` may be called in a signal handler.
        unsafe { libc::kill(CHILD.load(Ordering::Relaxed), signal) };
    }
    CHILD.store(child, Ordering::Relaxed);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler only calls `kill`.
        unsafe { libc::signal(signal, pass as extern "C" fn(i32) as libc::sighandler_t) };
    }
}

/// Ends the process that works if the program has ended, and the node has not within [`ENDING`]. A
/// program that ends before it has initialized MPI leaves its nodes waiting there. This process
/// sees a program of its own machine alone.
fn watch_program(child: i32) {
    let launched = Launched::from_environment(|name| std::env::var(name).ok());
    let Some(launched) = launched else { return };
    // The launcher may start this process before the program.
    let mut looks = (0..LOOKS).map(|_| {
        std::thread::sleep(LOOK);
        launched.program()
    });
    let program = looks.find_map(|program| program);
    if program.is_none() && !launched.are_all_here() {
        return;
    }
    let mut alive = Instant::now();
    while alive.elapsed() < ENDING {
        std::thread::sleep(LOOK);
        if program.is_some_and(is_alive) {
            alive = Instant::now();
        }
    }
    IS_ABANDONED.store(true, Ordering::SeqCst);
    // SAFETY: this process ends with the child, or holds its number until then.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

/// Returns whether a process runs; it has ended if no process has waited for it yet.
fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
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
    if IS_ABANDONED.load(Ordering::SeqCst) {
        eprintln!("longshore-node: the program has ended and the node has not; the job ends");
        return end_job();
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

/// Has the launcher end the nodes of other machines too, which see no end of the program: all
/// launchers do so after a death by a signal.
fn end_job() -> ExitCode {
    // SAFETY: the default action of the signal ends this process.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::raise(libc::SIGTERM);
    }
    ExitCode::FAILURE
}

/// Waits for the launcher to end this process, or for the end of the program.
fn rest() -> ExitCode {
    // SAFETY: the default action of these signals ends this process.
    unsafe {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    while !IS_ABANDONED.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK);
    }
    end_job()
}
