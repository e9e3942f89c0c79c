//! A listening executor's two processes: one serves the controller, the other reports the end of
//! the first.
//!
//! The serving process may end in any way, without time to report it. The other process has the
//! connection too, and runs no code of the controller's.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::waiting::{BlockedSignals, ForkSide, Role, attend, code_of, fork};
use crate::remote::LastMessageSender;

/// Forks, and returns in the new process, which ends with the calling one. The calling process
/// waits for its end, reports it to the controller, and ends in the same way.
///
/// # Errors
/// Every error of the system; there is no new process then.
///
/// # Safety
/// The process has one thread.
pub(super) unsafe fn split(last_message: &LastMessageSender) -> io::Result<()> {
    let parent = getpid();
    let held = BlockedSignals::hold();
    // SAFETY: guaranteed by the caller.
    match unsafe { fork(&held)? } {
        ForkSide::Child => {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                super::leave(1);
            }
            Ok(())
        }
        ForkSide::Parent(child) => {
            tell(last_message, attend(child, Role::Work, Some(last_message.controller()), held))
        }
    }
}

/// Reports the end of the serving process to the controller, and ends this process in the same way.
pub(super) fn tell(last_message: &LastMessageSender, status: ExitStatus) -> ! {
    last_message.tell(status.into_raw());
    super::leave(code_of(status))
}
