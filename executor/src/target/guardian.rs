//! A listening executor's two processes: one serves the controller, the other tells it how the first has ended.
//!
//! The first may end in any way, without a moment for last words. The second has the connection too, and runs nothing of the
//! controller's.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, set_parent_process_death_signal, waitpid,
};

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
    // SAFETY: promised by the caller: the child can do all that this process can.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                super::leave(1);
            }
            Ok(())
        }
        child => {
            let child = Pid::from_raw(child).expect("a process has a number");
            let status = wait(child);
            epitaph.tell(status.into_raw());
            super::leave(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
        }
    }
}

fn wait(child: Pid) -> ExitStatus {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return ExitStatus::from_raw(status.as_raw()),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => super::fail(1, &format!("waiting for the process that serves: {error}")),
        }
    }
}
