//! The preparation of the process: inherited descriptors, the tie to its controller, and limits.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getppid, getrlimit, pidfd_open,
    set_parent_process_death_signal, setrlimit,
};

use super::arguments::{Arguments, Controller, Limits};
use crate::rpc::EndReason;

/// Prepares the process. If another program has started it, closes inherited descriptors and ties
/// the process to that program. Then sets the limits. The process must have one thread.
pub(super) fn prepare(arguments: &Arguments) -> Result<(), String> {
    if let Controller::Parent(socket) = arguments.controller {
        // The kernel's signal works even while the process is stopped and cannot notice the
        // controller's end itself.
        let tied = set_parent_process_death_signal(Some(Signal::KILL));
        tied.map_err(|error| {
            format!("the signal for the controller's end cannot be requested: {error}")
        })?;
        close_others(socket)?;
        keep_from_children(socket)?;
    }
    limit(&arguments.limits)
}

/// Returns a file that becomes readable when the controller, the maker of the socket, ends. `None`
/// if the controller cannot be watched.
///
/// # Errors
/// `EndReason::Cut` if the controller has ended already.
pub(super) fn controller(socket: i32) -> Result<Option<OwnedFd>, EndReason> {
    // After the end of the parent, `getppid` does not return it any more.
    let Some(controller) = maker(socket).or_else(getppid) else { return Ok(None) };
    match pidfd_open(controller, PidfdFlags::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(rustix::io::Errno::SRCH) => Err(EndReason::Cut),
        Err(error) => {
            log::debug!("the controller cannot be watched: {error}");
            Ok(None)
        }
    }
}

/// Returns the process that has made a pair of sockets, if it has a number in this namespace.
fn maker(socket: i32) -> Option<Pid> {
    let mut reported = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are to live variables of the expected sizes.
    let result = unsafe {
        let place = (&raw mut reported).cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut bytes)
    };
    if result == 0 { Pid::from_raw(reported.pid) } else { None }
}

/// Closes all descriptors except the standard streams and the socket.
fn close_others(socket: i32) -> Result<(), String> {
    close_from(3, &[socket]).map_err(|error| format!("closing inherited descriptors: {error}"))
}

/// Closes all descriptors except `kept`.
///
/// # Errors
/// Every error of the system.
pub(super) fn close_all_but(kept: i32) -> io::Result<()> {
    close_from(0, &[kept])
}

/// Closes all descriptors from `first` on except `kept`.
///
/// # Errors
/// Every error of the system.
pub(super) fn close_from(first: i32, kept: &[i32]) -> io::Result<()> {
    let close = |first: i32, last: u32| {
        // SAFETY: nothing in this process uses these descriptors: the process has just begun, or
        // only waits.
        let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let mut sorted: Vec<i32> = kept.iter().copied().filter(|kept| *kept >= first).collect();
    sorted.sort_unstable();
    let mut begin = first;
    let mut closed = Ok(());
    for kept in sorted {
        if closed.is_ok() && kept > begin {
            closed = close(begin, kept.unsigned_abs() - 1);
        }
        begin = kept + 1;
    }
    match closed.and_then(|()| close(begin, u32::MAX)) {
        // Linux before 5.9 has no `close_range`.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => close_each_from(first, kept),
        closed => closed,
    }
}

fn close_each_from(first: i32, kept: &[i32]) -> io::Result<()> {
    let folder = File::open("/proc/self/fd")?;
    let ours = folder.as_raw_fd();
    drop(folder);
    let entries = std::fs::read_dir("/proc/self/fd")?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.collect::<Vec<_>>() {
        if number >= first && !kept.contains(&number) && number != ours {
            // SAFETY: nothing in this process uses the descriptor.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Marks the socket close-on-exec, so that programs started by the code do not inherit it.
fn keep_from_children(socket: i32) -> Result<(), String> {
    // SAFETY: the call sets a flag of a descriptor.
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
