//! What an executor does without.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getppid, getrlimit, pidfd_open,
    set_parent_process_death_signal, setrlimit,
};

use super::arguments::{Arguments, Controller, Limits};
use crate::rpc::Ended;

/// Closes what was inherited, if another program has started this one, ties the process to that program, and sets the limits. The
/// process has one thread as yet.
pub(super) fn prepare(arguments: &Arguments) -> Result<(), String> {
    if let Controller::Parent(socket) = arguments.controller {
        // This holds while the process is stopped as well, when it cannot see for itself that its controller has ended.
        let tied = set_parent_process_death_signal(Some(Signal::KILL));
        tied.map_err(|error| format!("asking for a signal at the controller's end: {error}"))?;
        close_others(socket)?;
        keep_from_children(socket)?;
    }
    limit(&arguments.limits)
}

/// A file that becomes readable when the controller ends, which has made the socket. `None` if the controller cannot be watched.
///
/// # Errors
/// `Ended::Cut` if it has ended already.
pub(super) fn controller(socket: i32) -> Result<Option<OwnedFd>, Ended> {
    // A parent that has ended is not the parent any more.
    let Some(controller) = maker(socket).or_else(getppid) else { return Ok(None) };
    match pidfd_open(controller, PidfdFlags::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(rustix::io::Errno::SRCH) => Err(Ended::Cut),
        Err(error) => {
            log::debug!("the controller cannot be watched: {error}");
            Ok(None)
        }
    }
}

/// The process that has made a pair of sockets, if it has a number here.
fn maker(socket: i32) -> Option<Pid> {
    let mut told = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: there is a place for what is told, and for its size.
    let result = unsafe {
        let place = (&raw mut told).cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut bytes)
    };
    if result == 0 { Pid::from_raw(told.pid) } else { None }
}

/// Closes all descriptors but the standard streams and the socket.
fn close_others(socket: i32) -> Result<(), String> {
    close_from(3, socket).map_err(|error| format!("closing inherited descriptors: {error}"))
}

/// Closes all descriptors but this one.
///
/// # Errors
/// Errors of the system.
pub(super) fn close_all_but(kept: i32) -> io::Result<()> {
    close_from(0, kept)
}

/// Closes all descriptors from `first` on but one.
fn close_from(first: i32, kept: i32) -> io::Result<()> {
    let close = |first: i32, last: u32| {
        // SAFETY: nothing in this process uses these descriptors: it has just begun, or does nothing but wait.
        let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let closed = match kept - first {
        1.. => close(first, kept.unsigned_abs() - 1).and_then(|()| close(kept + 1, u32::MAX)),
        0 => close(kept + 1, u32::MAX),
        _ => close(first, u32::MAX),
    };
    match closed {
        // Before Linux 5.9.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => close_each_from(first, kept),
        closed => closed,
    }
}

fn close_each_from(first: i32, kept: i32) -> io::Result<()> {
    let folder = File::open("/proc/self/fd")?;
    let ours = folder.as_raw_fd();
    drop(folder);
    let entries = std::fs::read_dir("/proc/self/fd")?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.collect::<Vec<_>>() {
        if number >= first && number != kept && number != ours {
            // SAFETY: nothing in this process uses the descriptor.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Programs that the code starts do not have the socket.
fn keep_from_children(socket: i32) -> Result<(), String> {
    // SAFETY: sets a flag of a descriptor.
    match unsafe { libc::fcntl(socket, libc::F_SETFD, libc::FD_CLOEXEC) } {
        -1 => Err(format!("--fd {socket}: {}", io::Error::last_os_error())),
        _ => Ok(()),
    }
}

fn limit(limits: &Limits) -> Result<(), String> {
    for (resource, value, option) in [
        (Resource::As, limits.memory_bytes, "--memory"),
        (Resource::Data, limits.data_bytes, "--data"),
        (Resource::Cpu, limits.cpu_seconds, "--cpu"),
        (Resource::Nofile, limits.open_files, "--files"),
        (Resource::Core, limits.core_bytes, "--core"),
    ] {
        let Some(value) = value else { continue };
        let most = getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
        let both = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, both).map_err(|error| format!("{option} {value}: {error}"))?;
    }
    Ok(())
}
