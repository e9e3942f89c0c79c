//! A process with fewer rights than its user, for code and plugins that are to compute and nothing else.
//!
//! - Capabilities are given up, and cannot be gained again.
//! - A filter of system calls refuses all that names another process, starts one, makes a socket or changes the system ([`calls`]).
//!   It holds on every kernel.
//! - Landlock keeps the process out of other processes (memory, descriptors, signals), and from writing to the kernel's file systems
//!   and to raw devices ([`files`]).
//! - Namespaces of users, of process numbers and of System V's objects are a second layer before other processes, where the system
//!   permits them ([`namespaces`]): what the filter might let through finds no process to name and none to trace. Where it permits a
//!   user namespace alone, and has no Landlock, that keeps the process out of the memory of others.

mod calls;
mod files;
pub(super) mod namespaces;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::arguments::Sandbox;

/// Gives up rights, for good. What is refused from now on fails with `EPERM` or `EACCES`. The process has one thread as yet.
/// `is_apart` says whether it is inside of [`namespaces::enter`].
///
/// The parts that this kernel cannot hold are named on standard error.
///
/// # Errors
/// A text that names the part: one that has failed, or, in [`Sandbox::Required`], one that the kernel cannot hold.
pub(super) fn enter(wanted: Sandbox, is_apart: bool) -> Result<(), String> {
    if wanted == Sandbox::Off {
        return Ok(());
    }
    let failed = |what: &str, why: &dyn std::fmt::Display| format!("--sandbox: {what}: {why}");
    let has_landlock = files::restrict().map_err(|why| failed("Landlock", &why))?;
    let has_own_users = is_apart || (!has_landlock && namespaces::enter_of_users());
    if let Some(missing) = missing(has_landlock, has_own_users) {
        if wanted == Sandbox::Required {
            return Err(format!("--sandbox=required: {missing}"));
        }
        eprintln!("longshore-executor: the sandbox has a gap: {missing}");
    }
    give_up_capabilities().map_err(|why| failed("capabilities", &why))?;
    calls::filter().map_err(|why| failed("the filter of system calls", &why))
}

fn missing(has_landlock: bool, has_own_users: bool) -> Option<String> {
    let gap = match (has_landlock, has_own_users) {
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

fn give_up_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
