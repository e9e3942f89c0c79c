//! The child's side of a probe: the probing process, and its supervisor.
//!
//! The supervisor runs no code of the plugin. It is the subreaper of its descendants: processes
//! that lose their parent become its children. So it can end them all, in any session. It does so
//! when the plugin was probed or has crashed, and when the program requests the end or has ended.

use super::super::library::{LoadedPlugin, PluginFile};
use super::super::report::Outcome;
use super::super::search::backend_of;
use super::verdict::{Channel, Message};
use crate::environment::Environment;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid,
    kill_process, kill_process_group, pidfd_open, set_child_subreaper,
    set_parent_process_death_signal, setrlimit, setsid, wait,
};
use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Runs the child's side of a [`Probe`](super::Probe): probes the plugin in `path` in a forked
/// process, and sends the outcome to the program. Returns the exit code with which the calling
/// process must end at once. Blocks, at most for the probe's time limit. The calling process must
/// have one thread, and the standard input that the probe has given it.
///
/// All processes that the plugin has started are killed before the function returns. A crash of the
/// plugin writes no core file.
pub fn probe_main(path: &Path) -> i32 {
    match supervise(path) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("probing '{}': {error}", path.display());
            1
        }
    }
}

/// The ignorable signals that end or stop a process. The supervisor ignores them, as a plugin may
/// send them to all processes around it.
const IGNORED: [c_int; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// The setting of a plugin in the probing process. A plugin whose driver one process alone may
/// use leaves it to the program.
const IS_PROBE: &str = "IS_PROBE";
/// Longest wait for killed processes to end.
const DYING: Duration = Duration::from_secs(2);

fn supervise(path: &Path) -> io::Result<()> {
    let channel = Channel::from_standard_input()?;
    // At the end of the program, wakes a stopped supervisor, which then sees the closed channel.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    set_child_subreaper(Some(getpid()))?;
    // With an ignored `SIGCHLD`, inherited from the program, the system would discard the child's
    // exit status.
    dispose(&[libc::SIGCHLD], libc::SIG_DFL);
    dispose(&IGNORED, libc::SIG_IGN);
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    // If the system forbids the limit, a crash only leaves a core file.
    let _ = setrlimit(Resource::Core, no_core);
    let supervisor = getpid();
    // SAFETY: the process has one thread, so no lock is held by another thread in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => try_plugin(path, &channel, supervisor),
        child => {
            let child = Pid::from_raw(child).expect("a process has a number");
            wait_for_end(child, &channel)?;
            let status = end_all(child);
            channel.send(&Message::End(status))
        }
    }
}

/// Probes the plugin and sends its outcome. Runs in the probing process.
fn try_plugin(path: &Path, channel: &Channel, supervisor: Pid) -> ! {
    // The signal is not sent if the supervisor has already ended, so the parent is checked as well.
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    if tied.is_err() || getppid() != Some(supervisor) {
        std::process::exit(1);
    }
    dispose(&IGNORED, libc::SIG_DFL);
    // In its own session, so that signals of the plugin to its group do not reach the supervisor.
    let _ = setsid();
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let file = PluginFile { path, loader_path: path };
        let backend = backend_of(path);
        let mut environment = Environment::from_process();
        environment.set_setting(&backend, IS_PROBE, "1");
        LoadedPlugin::open(file, &backend, &environment).map(drop)
    }));
    let outcome = match opened {
        Ok(Ok(())) => Outcome::Loaded,
        Ok(Err(outcome)) => outcome,
        // Unwinding further would run the supervisor's code in this process.
        Err(_) => std::process::abort(),
    };
    let sent = channel.send(&Message::Verdict(outcome));
    std::process::exit(i32::from(sent.is_err()))
}

fn dispose(signals: &[c_int], how: libc::sighandler_t) {
    for signal in signals {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(*signal, how) };
    }
}

/// Waits until the child ends, the program requests the end, or the program ends.
fn wait_for_end(child: Pid, channel: &Channel) -> io::Result<()> {
    let process = pidfd_open(child, PidfdFlags::empty())?;
    let mut files = [
        PollFd::new(&process, PollFlags::IN),
        PollFd::new(channel, PollFlags::IN | PollFlags::RDHUP),
    ];
    retry_on_intr(|| poll(&mut files, None))?;
    Ok(())
}

/// Ends all descendants of this process, and returns the exit status of the child.
fn end_all(child: Pid) -> ExitStatus {
    // The child is not reaped yet, so no other process can have its number.
    let _ = kill_process_group(child, Signal::KILL);
    let deadline = Instant::now() + DYING;
    let mut status = None;
    while !reap(child, &mut status) && Instant::now() < deadline {
        for process in children() {
            // Fails for a process that has ended, or that belongs to another user.
            let _ = kill_process(process, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // Without a status the child could not be killed in time.
    ExitStatus::from_raw(status.map_or(libc::SIGKILL, WaitStatus::as_raw))
}

/// Reaps the children that have ended. Returns whether no child is left.
fn reap(child: Pid, status: &mut Option<WaitStatus>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((process, how))) if process == child => *status = Some(how),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Returns the children of this process; none if `/proc` does not list them.
fn children() -> Vec<Pid> {
    let us = getpid();
    // In a PID namespace without its own `/proc`, the numbers in `/proc` are of another namespace.
    let is_ours =
        fs::read_link("/proc/self").is_ok_and(|name| name.to_str() == Some(&us.to_string()));
    if !is_ours {
        return Vec::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| parent_of(*process) == Some(us)).filter_map(Pid::from_raw).collect()
}

fn parent_of(process: i32) -> Option<Pid> {
    let facts = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The process's name in parentheses may contain any characters.
    let end_of_name = facts.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&facts[end_of_name + 1..]).ok()?;
    Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)
}
