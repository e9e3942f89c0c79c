//! A process with fewer rights than its user, for code and plugins that only compute.
//!
//! - Capabilities are given up, and cannot be gained again.
//! - A filter of system calls refuses calls that name another process, start one, make a socket or
//!   change the system ([`calls`]). It works on every kernel.
//! - Landlock denies access to other processes (memory, descriptors, signals), and writes to the
//!   kernel's file systems and to raw devices ([`files`]).
//! - Namespaces of users, of process numbers and of System V objects are a second layer of
//!   protection for other processes, where the system permits them ([`namespaces`]). A call that
//!   passes the filter finds no process to name and none to trace. Without Landlock, a user
//!   namespace alone, where permitted, protects the memory of other processes.

mod calls;
mod files;
pub(super) mod namespaces;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::arguments::Sandbox;

/// Gives up rights permanently. Refused operations fail with `EPERM` or `EACCES` afterwards. The
/// process must have one thread. `is_apart` is true in the namespaces of [`namespaces::enter`].
///
/// Parts that this kernel does not support are printed on standard error.
///
/// # Errors
/// A text that names the part: a failed one or, in [`Sandbox::Required`], one that the kernel does
/// not support.
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
