//! A listening executor's two processes: one serves the controller, the other tells it how the first has ended.
//!
//! The first may end in any way, without a moment for last words. The second has the connection too, and runs nothing of the
//! controller's.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::waiting::{Forked, HeldSignals, Role, attend, code_of, fork};
use crate::remote::Epitaph;

/// Returns in a new process, which ends with this one. This one waits for its end, tells the controller, and ends alike.
///
/// # Errors
/// Errors of the system: there is no new process then.
///
/// # Safety
/// The process has one thread.
pub(super) unsafe fn split(epitaph: &Epitaph) -> io::Result<()> {
    let parent = getpid();
    let held = HeldSignals::hold();
    // SAFETY: promised by the caller.
    match unsafe { fork(&held)? } {
        Forked::Child => {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                super::leave(1);
            }
            Ok(())
        }
        Forked::Parent(child) => {
            tell(epitaph, attend(child, Role::Work, Some(epitaph.controller()), held))
        }
    }
}

/// Tells the controller how the process has ended that served it, and ends this one alike.
pub(super) fn tell(epitaph: &Epitaph, status: ExitStatus) -> ! {
    epitaph.tell(status.into_raw());
    super::leave(code_of(status))
}
