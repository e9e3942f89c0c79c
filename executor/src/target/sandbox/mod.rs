//! A process with fewer rights than its user, for code and plugins that are to compute and nothing else.
//!
//! - Capabilities are given up, and cannot be gained again.
//! - Landlock keeps the process out of other processes (memory, descriptors, signals), and from writing to the kernel's file systems
//!   and to raw devices ([`files`]). Without Landlock a user namespace keeps it out of the memory of others.
//! - A filter of system calls refuses all that names another process, starts one, makes a socket or changes the system ([`calls`]).
//!   It holds on every kernel, so there is no need for a namespace of process numbers, which would take a second process.

mod calls;
mod files;

use std::fs;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::arguments::Sandbox;

/// Gives up rights, for good. What is refused from now on fails with `EPERM` or `EACCES`. The process has one thread as yet.
///
/// The parts that this kernel cannot hold are named on standard error.
///
/// # Errors
/// A text that names the part: one that has failed, or, in [`Sandbox::Required`], one that the kernel cannot hold.
pub(super) fn enter(wanted: Sandbox) -> Result<(), String> {
    if wanted == Sandbox::Off {
        return Ok(());
    }
    let failed = |what: &str, why: &dyn std::fmt::Display| format!("--sandbox: {what}: {why}");
    let has_landlock = files::restrict().map_err(|why| failed("Landlock", &why))?;
    let is_apart = has_landlock || enter_user_namespace();
    if let Some(missing) = missing(has_landlock, is_apart) {
        if wanted == Sandbox::Required {
            return Err(format!("--sandbox=required: {missing}"));
        }
        eprintln!("longshore-executor: the sandbox has a gap: {missing}");
    }
    give_up_capabilities().map_err(|why| failed("capabilities", &why))?;
    calls::filter().map_err(|why| failed("the filter of system calls", &why))
}

fn missing(has_landlock: bool, is_apart: bool) -> Option<String> {
    let gap = match (has_landlock, is_apart) {
        (true, _) => return None,
        (false, true) => "files below /proc and /sys and raw devices can be written",
        (false, false) => {
            "the memory of the user's other processes can be read and changed, and files below /proc and /sys and raw devices can \
             be written"
        }
    };
    Some(format!(
        "{gap}, as far as the user may, since the kernel has no Landlock (Linux 5.13, with 'landlock' among its security modules)"
    ))
}

/// Moves the process into a user namespace of its own, in which its user is the same. `false` where that is not permitted.
fn enter_user_namespace() -> bool {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: the process has one thread, which nothing else shares its credentials with.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return false;
    }
    // Where one of these fails, the user's number reads as that of nobody, and nothing else is different.
    let _ = fs::write("/proc/self/setgroups", "deny");
    let _ = fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()));
    let _ = fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()));
    true
}

fn give_up_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
