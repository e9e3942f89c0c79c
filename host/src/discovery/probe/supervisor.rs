//! The other side of a probe: the process that tries the plugin, and its supervisor.
//!
//! The supervisor runs nothing of the plugin's. It is the parent of every process below it that has lost its own, so that it
//! ends them all, in whatever session they are, on each way out: the plugin was tried, it has crashed, or the program asks for
//! the end or has ended.

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

/// Returns the child's side of a [`Probe`](super::Probe): tries the plugin in `path` in a process that it forks, and says what became of it.
/// Returns the exit code with which the calling process must end at once. Blocks, for the probe's time limit at most. The
/// calling process has one thread, and its standard input is what the probe has made that.
///
/// Whatever the plugin has started is killed before it returns. No core file is written when the plugin crashes.
pub fn probe_main(path: &Path) -> i32 {
    match supervise(path) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("trying '{}': {error}", path.display());
            1
        }
    }
}

/// Signals that end or stop a process and that can be ignored: a plugin may send them to all processes about it.
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

/// Time for processes to be gone that were killed.
const DYING: Duration = Duration::from_secs(2);

fn supervise(path: &Path) -> io::Result<()> {
    let channel = Channel::from_standard_input()?;
    // Wakes a supervisor that is stopped; it sees then that the channel is cut.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    set_child_subreaper(Some(getpid()))?;
    // The program may ignore it, and then the system would not tell how a child has ended.
    dispose(&[libc::SIGCHLD], libc::SIG_DFL);
    dispose(&IGNORED, libc::SIG_IGN);
    let no_core = Rlimit { current: Some(0), maximum: Some(0) };
    // A system that forbids it only gains a core file.
    let _ = setrlimit(Resource::Core, no_core);
    let supervisor = getpid();
    // SAFETY: the process has one thread, so that the child can do all that this process can.
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

/// Runs in the process that holds the plugin.
fn try_plugin(path: &Path, channel: &Channel, supervisor: Pid) -> ! {
    // A supervisor that has ended already sends no signal.
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    if tied.is_err() || getppid() != Some(supervisor) {
        std::process::exit(1);
    }
    dispose(&IGNORED, libc::SIG_DFL);
    // Signals to its group do not reach the supervisor.
    let _ = setsid();
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let file = PluginFile { path, loader_path: path };
        LoadedPlugin::open(file, &backend_of(path), &Environment::from_process()).map(drop)
    }));
    let outcome = match opened {
        Ok(Ok(())) => Outcome::Loaded,
        Ok(Err(outcome)) => outcome,
        // The caller's part of the stack is the supervisor's.
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

/// Waits until the child ends, the program asks for the end, or the program is gone.
fn wait_for_end(child: Pid, channel: &Channel) -> io::Result<()> {
    let process = pidfd_open(child, PidfdFlags::empty())?;
    let mut files = [
        PollFd::new(&process, PollFlags::IN),
        PollFd::new(channel, PollFlags::IN | PollFlags::RDHUP),
    ];
    retry_on_intr(|| poll(&mut files, None))?;
    Ok(())
}

/// Ends all processes below this one, and answers how the child has ended.
fn end_all(child: Pid) -> ExitStatus {
    // The group is there as long as nothing has waited for the child.
    let _ = kill_process_group(child, Signal::KILL);
    let deadline = Instant::now() + DYING;
    let mut status = None;
    while !reap(child, &mut status) && Instant::now() < deadline {
        for process in children() {
            // It may have ended by itself, or belong to another user.
            let _ = kill_process(process, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // A child that is left is one that cannot be killed.
    ExitStatus::from_raw(status.map_or(libc::SIGKILL, WaitStatus::as_raw))
}

/// Waits for the children that have ended. Whether there are no others.
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

/// Returns the children of this process; none where `/proc` does not tell.
fn children() -> Vec<Pid> {
    let us = getpid();
    // In a namespace of processes without a `/proc` of its own the numbers there are others.
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
    // The name before may have any characters.
    let end_of_name = facts.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&facts[end_of_name + 1..]).ok()?;
    Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)
}
